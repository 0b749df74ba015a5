//! Measures the time to compare large runs: `just bench-compare [CELLS]`, by default 10,000 cells with five processes per side. Fails if
//! reading and comparing the runs takes longer than [`LIMIT`], scaled to the number of cells.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{collections::BTreeSet, fs, time::Instant};

use mantissa_core::{Axis, Cell, MetricName};
use mantissa_gate::{Fences, Policy, RunMeasurements, compare};
use support::{InventedRun, cell, noise};

/// Limit in seconds for 10,000 cells.
const LIMIT: f64 = 2.0;

/// Metrics of each cell. A cell that trains a model has as many.
const METRICS: [MetricName; 16] = [
    MetricName::TrainSeconds,
    MetricName::StepSeconds,
    MetricName::SamplesPerSecond,
    MetricName::TokensPerSecond,
    MetricName::LoadSeconds,
    MetricName::WarmupSeconds,
    MetricName::HostPeakBytes,
    MetricName::WeightsBytes,
    MetricName::GradientsBytes,
    MetricName::OptimizerBytes,
    MetricName::ActivationsBytes,
    MetricName::AllocatorInUsePeakBytes,
    MetricName::EnergyCounterJoules,
    MetricName::TestAccuracy,
    MetricName::TestLoss,
    MetricName::FinalLoss,
];

fn main() {
    let cells: u64 = std::env::args()
        .nth(1)
        .map_or(10_000, |count| count.parse().expect("CELLS must be a number"));
    let folder = tempfile::tempdir().expect("cannot create a temporary folder");
    let paths = ["before", "after"].map(|name| folder.path().join(name));
    let all: Vec<Cell> = (0..cells)
        .map(|cell_index| cell(&[(Axis::Size, &(8 + cell_index).to_string())]))
        .collect();
    for (side, path) in (0_u64..).zip(&paths) {
        let metrics = |cell_index: usize, process: u32| {
            let number = |(at, metric): (u64, &MetricName)| {
                let key = ((side * cells + cell_index as u64) * 5 + u64::from(process)) * 100 + at;
                (*metric, 0.5 * noise(key))
            };
            (0..).zip(&METRICS).map(number).collect()
        };
        InventedRun::new(&all, 5, metrics).write(path);
    }
    let records = paths[0].join("records.jsonl");
    let bytes = fs::metadata(&records)
        .expect("cannot read the size of the records")
        .len();
    println!(
        "{cells} cells, 5 processes and {:.0} MB of records per side",
        bytes as f64 / 1e6
    );

    let start = Instant::now();
    let [before, after] =
        paths.map(|path| RunMeasurements::read(&path).expect("cannot read the generated run"));
    let read = start.elapsed();
    let comparison = compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    );
    let (all, compared) = (
        start.elapsed(),
        comparison
            .expect("the generated runs must be comparable")
            .cells
            .len(),
    );
    println!(
        "read in {:.2} s, {compared} cells compared in {:.2} s",
        read.as_secs_f64(),
        (all - read).as_secs_f64()
    );
    let limit = LIMIT * cells as f64 / 1e4;
    assert!(
        all.as_secs_f64() <= limit,
        "the comparison took {:.2} s, the limit is {limit:.2} s",
        all.as_secs_f64()
    );
}
