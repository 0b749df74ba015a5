//! Invented runs of six cells, and their comparison under the default policy.

use std::{collections::BTreeSet, path::Path};

use mantissa_core::{Axis, Cell, MetricName};
use mantissa_gate::{Comparison, Day, Fences, GateReport, Policy, RunMeasurements, compare};

use crate::support::{InventedRun, cell, noise};

pub const TODAY: Day = Day {
    year: 2026,
    month: 6,
    day: 15,
};

pub fn cells() -> Vec<Cell> {
    let sizes = ["64", "128", "256"];
    let pairs = ["32-true", "bf16-true"]
        .into_iter()
        .flat_map(|precision| sizes.map(|size| cell(&[(Axis::Precision, precision), (Axis::Size, size)])));
    pairs.collect()
}

/// Creates a run of six cells in five processes. The values are multiplied by `factor(cell_index, metric)`. `seed` selects the noise.
pub fn run(seed: u64, factor: impl Fn(usize, MetricName) -> f64) -> InventedRun {
    InventedRun::new(&cells(), 5, |cell_index, process| {
        let number = |metric: MetricName, value: f64, noisy: bool| {
            let key =
                seed * 10_000 + cell_index as u64 * 100 + u64::from(process) * 7 + metric as u64 * 1_000_003;
            (
                metric,
                value * factor(cell_index, metric) * if noisy { noise(key) } else { 1.0 },
            )
        };
        vec![
            number(MetricName::FlopsPerSecond, 1e11, true),
            number(MetricName::HostPeakBytes, 5e7, true),
            number(MetricName::AllocatorInUsePeakBytes, 1e7, false),
            number(MetricName::RelativeError, 3e-4, false),
        ]
    })
}

pub fn unchanged(_: usize, _: MetricName) -> f64 {
    1.0
}

pub fn read_back(run: InventedRun) -> RunMeasurements {
    let folder = tempfile::tempdir().unwrap();
    run.write(folder.path());
    RunMeasurements::read(folder.path()).unwrap()
}

pub fn compare_runs(before: InventedRun, after: InventedRun) -> Comparison {
    let (before, after) = (read_back(before), read_back(after));
    compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap()
}

pub fn gate_runs(before: InventedRun, after: InventedRun) -> GateReport {
    GateReport::new(compare_runs(before, after), &Policy::default(), TODAY, false)
}

pub fn write_and_read(folder: &Path, run: InventedRun) -> RunMeasurements {
    run.write(folder);
    RunMeasurements::read(folder).unwrap()
}
