//! Tests of interleaved runs.

use std::collections::BTreeSet;

use mantissa_core::{Axis, Cell, MetricName};
use mantissa_gate::{ChangeVerdict, Comparison, Fences, Policy, RunMeasurements, compare};

use crate::support::{InventedRun, cell, noise};

/// Compares twelve cells that are all 10 % slower in the candidate. Each side has five runs of `processes` processes, which start at the
/// given seconds.
fn all_slower(before: [u32; 5], after: [u32; 5], processes: u32) -> Comparison {
    let sizes = ["16", "32", "64", "128", "256", "512"];
    let cells: Vec<Cell> = ["32-true", "bf16-true"]
        .into_iter()
        .flat_map(|precision| sizes.map(|size| cell(&[(Axis::Precision, precision), (Axis::Size, size)])))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let side = |name: &str, seconds: [u32; 5], factor: f64| {
        let runs = seconds.map(|second| {
            let path = folder.path().join(format!("{name}-{second}"));
            let value = |cell_index: usize, _| {
                let noise = noise(u64::from(second) * 1_000 + cell_index as u64);
                vec![(MetricName::FlopsPerSecond, factor * 1e11 * noise)]
            };
            let mut run = InventedRun::new(&cells, processes, value);
            run.started = format!("2026-01-01T00:00:{second:02}Z");
            run.write(&path);
            path
        });
        RunMeasurements::read_all(&runs).unwrap()
    };
    let (before, after) = (side("before", before, 1.0), side("after", after, 1.0 / 1.1));
    compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap()
}

#[test]
fn a_common_slowdown_is_conclusive_only_with_interleaved_runs() {
    let outcomes = |comparison: &Comparison| comparison.outcomes().collect::<BTreeSet<_>>();
    let interleaved = all_slower([1, 3, 5, 7, 9], [2, 4, 6, 8, 10], 1);
    assert_eq!(outcomes(&interleaved), BTreeSet::from([ChangeVerdict::Regressed]));
    let sequential = all_slower([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 1);
    assert_eq!(
        outcomes(&sequential),
        BTreeSet::from([ChangeVerdict::Inconclusive])
    );
    let change = &sequential.cells[0].changes[0];
    assert!(
        change
            .text()
            .ends_with("(all cells changed alike, and the runs were not interleaved)"),
        "{}",
        change.text()
    );
    assert!((change.drift - 1.0 / 1.1).abs() < 0.01, "{}", change.drift);
    assert!(interleaved.cells.iter().all(|cell| cell.changes[0].drift == 1.0));
}

#[test]
fn processes_of_a_run_count_as_one_value_with_enough_runs() {
    let several = all_slower([1, 3, 5, 7, 9], [2, 4, 6, 8, 10], 3);
    for change in several.cells.iter().flat_map(|cell| &cell.changes) {
        assert_eq!(change.processes, (5, 5));
    }
}
