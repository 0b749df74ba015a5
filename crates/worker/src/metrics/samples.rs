//! Access to the raw samples of a workload.

use mantissa_analysis::median;
use mantissa_core::SeriesName;
use mantissa_workloads::Outcome;

/// Returns the values of a series; empty if the series is absent.
pub(super) fn series(outcome: &Outcome, name: SeriesName) -> Vec<f64> {
    outcome
        .samples
        .get(name)
        .map(|series| series.values().collect())
        .unwrap_or_default()
}

/// Selects those of the earliest `first` times during which the clock was not throttled. If they are too few for an interval, selects all of
/// the earliest `first` times. Returns the selected times and a description of the selection.
pub(super) fn unthrottled_times(
    outcome: &Outcome,
    times: SeriesName,
    marks: SeriesName,
    first: usize,
) -> (Vec<f64>, &'static str) {
    let mut launches = series(outcome, times);
    launches.truncate(first);
    let marks = series(outcome, marks);
    if marks.is_empty() {
        return (launches, "");
    }
    let unthrottled = launches.iter().zip(&marks).filter(|(_, mark)| **mark == 0.0);
    let unthrottled: Vec<f64> = unthrottled.map(|(seconds, _)| *seconds).collect();
    if median(unthrottled.iter().copied()).is_some_and(|median| median.interval.is_some()) {
        (unthrottled, ", while the clock was not throttled")
    } else {
        (launches, ", while the clock was throttled")
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{MetricName, TaskKind};
    use mantissa_workloads::TaskMeasurements;

    use super::*;
    use crate::metrics::testing::{metrics, outcome, values};

    #[test]
    fn throttled_launches_are_used_only_if_all_are_throttled() {
        let measured = || TaskMeasurements::Kernel {
            flops: Some(6.0),
            traffic: None,
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: None,
        };
        let rate = |launches: &[f64], marks: &[f64]| {
            let series = vec![
                values(SeriesName::LaunchSeconds, launches),
                values(SeriesName::Throttled, marks),
            ];
            metrics(TaskKind::Kernel, &outcome(measured(), series))[&MetricName::FlopsPerSecond].clone()
        };
        let some = rate(
            &[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 6.0, 6.0],
            &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0],
        );
        assert_eq!((some.value, some.n), (Some(3.0), Some(6)));
        assert!(some.method.contains("not throttled"), "{}", some.method);
        let all = rate(&[6.0; 8], &[1.0; 8]);
        assert_eq!((all.value, all.n), (Some(1.0), Some(8)));
        assert!(
            all.method.contains("while the clock was throttled"),
            "{}",
            all.method
        );
    }
}
