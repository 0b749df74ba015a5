//! Metrics of a record, computed from the measurements of a worker by a pure function.

mod checkpoint;
mod energy;
mod evaluate;
mod generate;
mod kernel;
mod launches;
mod measurements;
mod memory_breakdown;
mod memory_peaks;
mod metric_map;
mod missing_reason;
mod passage_interval;
mod samples;
mod tensor_ranges;
#[cfg(test)]
mod testing;
mod throughput;
mod train;

use mantissa_core::{MetricName, Setting};
use mantissa_workloads::TaskMeasurements;

pub use measurements::Measurements;

use self::{
    energy::energy,
    evaluate::evaluate,
    generate::generate,
    kernel::kernel,
    launches::launches,
    memory_peaks::memory_peaks,
    metric_map::{Metrics, insert_reading},
    train::train,
};

/// Computes every metric that applies to the cell. A metric that could not be measured is included without a value and with the reason.
pub fn summarise(setting: &Setting, measured: &Measurements<'_>) -> Metrics {
    let mut metrics = Metrics::new();
    let outcome = measured.outcome;
    insert_reading(
        &mut metrics,
        MetricName::LoadSeconds,
        outcome.load_seconds,
        "wall clock",
    );
    insert_reading(
        &mut metrics,
        MetricName::WarmupSeconds,
        outcome.warmup_seconds,
        "wall clock",
    );
    match &outcome.measured {
        TaskMeasurements::Train { .. } => train(&mut metrics, setting, outcome),
        TaskMeasurements::Evaluate { .. } => evaluate(&mut metrics, outcome),
        TaskMeasurements::Generate { .. } => generate(&mut metrics, outcome),
        TaskMeasurements::Kernel { .. } => kernel(&mut metrics, outcome),
    }
    launches(&mut metrics, outcome);
    memory_peaks(&mut metrics, setting.backend(), measured);
    energy(&mut metrics, setting.backend(), measured);
    metrics
}
