//! JSON for github-action-benchmark: one array for `customSmallerIsBetter` and one for `customBiggerIsBetter`.

use mantissa_analysis::Estimate;
use mantissa_core::{Better, MetricName};
use mantissa_report::Scale;
use serde::Serialize;

use super::{CellEstimates, Measurements};

/// Entry that the action reads and compares with the previous commit.
#[derive(Serialize)]
struct Benchmark {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// Renders the metrics whose direction of improvement is `better`, in the units of records. Omits `magnitude_bias`, whose best value is 0.
pub fn benchmark_action(measurements: &Measurements<'_>, better: Better) -> String {
    let benchmarks: Vec<Benchmark> = measurements
        .cells
        .iter()
        .flat_map(|cell| {
            let is_monotonic = |metric: MetricName| metric != MetricName::MagnitudeBias;
            cell.estimates
                .iter()
                .filter(move |(metric, _)| metric.better() == better && is_monotonic(**metric))
                .map(|(metric, estimate)| benchmark(cell, *metric, estimate))
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&benchmarks).expect("benchmarks serialize as JSON");
    text.push('\n');
    text
}

fn benchmark(cell: &CellEstimates<'_>, metric: MetricName, estimate: &Estimate) -> Benchmark {
    let processes = cell.measured.completed().count();
    let scale = Scale::of(metric, estimate.value);
    let range = estimate
        .interval
        .map(|interval| format!("{} {}", scale.range(interval), scale.unit));
    Benchmark {
        name: format!("{} {metric}", cell.series()),
        unit: metric.unit().name(),
        value: estimate.value,
        range: range.map(|range| range.trim_end().to_owned()),
        extra: format!(
            "{}\nprocesses: {processes}\n{}",
            scale.text(estimate.value),
            estimate.method
        ),
    }
}
