//! Invented runs of six cells, and their comparison under the default policy.

use std::{collections::BTreeSet, path::Path};

use mantissa_core::{Axis, Cell, MetricName};
use mantissa_gate::{Comparison, Day, Fences, GateReport, Policy, RunMeasurements, compare};

use crate::support::{Invented, cell, noise};

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

/// Creates a run of six cells in five processes. `factor` depends on the index of the cell and the metric; `seed` selects the noise.
pub fn run(seed: u64, factor: impl Fn(usize, MetricName) -> f64) -> Invented {
    Invented::new(&cells(), 5, |place, process| {
        let number = |metric: MetricName, value: f64, noisy: bool| {
            let key = seed * 10_000 + place as u64 * 100 + u64::from(process) * 7 + metric as u64 * 1_000_003;
            (
                metric,
                value * factor(place, metric) * if noisy { noise(key) } else { 1.0 },
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

pub fn same(_: usize, _: MetricName) -> f64 {
    1.0
}

pub fn measured(run: Invented) -> RunMeasurements {
    let folder = tempfile::tempdir().unwrap();
    run.write(folder.path());
    RunMeasurements::read(folder.path()).unwrap()
}

pub fn compared(before: Invented, after: Invented) -> Comparison {
    let (before, after) = (measured(before), measured(after));
    compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap()
}

pub fn gated(before: Invented, after: Invented) -> GateReport {
    GateReport::new(compared(before, after), &Policy::default(), TODAY, false)
}

pub fn written(folder: &Path, run: Invented) -> RunMeasurements {
    run.write(folder);
    RunMeasurements::read(folder).unwrap()
}
