//! Series that mark the samples taken while the clock was throttled.

use std::{ops::Range, time::Instant};

use mantissa_core::{Series, SeriesName};
use mantissa_telemetry::Throttling;
use mantissa_workloads::TaskMeasurements;

use crate::observer::Watched;

/// Returns the series that mark the launches or optimizer steps during which the clock was throttled.
pub(crate) fn throttle_marks(measured: &TaskMeasurements, watched: &Watched) -> impl Iterator<Item = Series> {
    let (windows, of) = match measured {
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
    let copies = copies.and_then(|windows| marks(SeriesName::CopyThrottled, of, windows, watched));
    let cublas = cublas.and_then(|windows| marks(SeriesName::CublasThrottled, of, windows, watched));
    let marked = marks(SeriesName::Throttled, of, windows, watched);
    marked.into_iter().chain(copies).chain(cublas)
}

/// Returns a series with 1 for each window in which the clock was throttled and 0 for the others, or `None` if it never was.
fn marks(name: SeriesName, of: &str, windows: &[Range<Instant>], watched: &Watched) -> Option<Series> {
    let seconds = |moment: Instant| moment.saturating_duration_since(watched.started).as_secs_f64();
    let is_throttled = |window: &Range<Instant>| {
        let throttling = watched
            .trace
            .throttled(seconds(window.start), seconds(window.end));
        matches!(throttling, Throttling::Yes(_))
    };
    windows.iter().any(is_throttled).then(|| {
        let mut series = Series {
            x_name: of.to_owned(),
            ..Series::new(name)
        };
        for (number, window) in (1u32..).zip(windows) {
            series.push(f64::from(number), f64::from(u8::from(is_throttled(window))));
        }
        series
    })
}
