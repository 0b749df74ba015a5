//! Series that mark the timings taken while the clock was throttled.

use std::{ops::Range, time::Instant};

use mantissa_core::{Series, SeriesName};
use mantissa_telemetry::Throttling;
use mantissa_workloads::TaskMeasurements;

use crate::observer::Observations;

/// Returns the series that mark the samples (launches, optimizer steps, micro-batches or texts) during which the clock was throttled.
pub(crate) fn throttle_marks(
    measured: &TaskMeasurements,
    observations: &Observations,
) -> impl Iterator<Item = Series> {
    let (windows, x_name) = match measured {
        TaskMeasurements::Kernel { windows, .. } => (windows, "launch"),
        TaskMeasurements::Train { windows, .. } => (windows, "optimizer step"),
        TaskMeasurements::Evaluate { windows, .. } => (windows, "micro-batch"),
        TaskMeasurements::Generate { windows, .. } => (windows, "text"),
    };
    let (copies, cublas) = match measured {
        TaskMeasurements::Kernel { traffic, cublas, .. } => (
            traffic.as_ref().map(|traffic| &traffic.windows),
            cublas.iter().flatten().next().map(|cublas| &cublas.windows),
        ),
        TaskMeasurements::Train { .. }
        | TaskMeasurements::Evaluate { .. }
        | TaskMeasurements::Generate { .. } => (None, None),
    };
    let copies = copies.and_then(|windows| marks(SeriesName::CopyThrottled, x_name, windows, observations));
    let cublas = cublas.and_then(|windows| marks(SeriesName::CublasThrottled, x_name, windows, observations));
    let marked = marks(SeriesName::Throttled, x_name, windows, observations);
    marked.into_iter().chain(copies).chain(cublas)
}

/// Returns a series with 1 for each window in which the clock was throttled and 0 for the others, or `None` if it was never throttled.
fn marks(
    name: SeriesName,
    x_name: &str,
    windows: &[Range<Instant>],
    observations: &Observations,
) -> Option<Series> {
    let seconds = |moment: Instant| {
        moment
            .saturating_duration_since(observations.started)
            .as_secs_f64()
    };
    let is_throttled = |window: &Range<Instant>| {
        let throttling = observations
            .trace
            .throttled(seconds(window.start), seconds(window.end));
        matches!(throttling, Throttling::Yes(_))
    };
    windows.iter().any(is_throttled).then(|| {
        let mut series = Series {
            x_name: x_name.to_owned(),
            ..Series::new(name)
        };
        for (number, window) in (1u32..).zip(windows) {
            series.push(f64::from(number), f64::from(u8::from(is_throttled(window))));
        }
        series
    })
}
