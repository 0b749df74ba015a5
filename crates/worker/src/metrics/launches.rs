//! Metrics of kernel launches.

use mantissa_analysis::median;
use mantissa_core::{Metric, MetricName, SeriesName};
use mantissa_workloads::{Outcome, TaskMeasurements};

use super::{
    metric_map::{Metrics, insert_reading},
    samples::series,
};

/// Adds the launches per unit of work, the host time per launch and the share of the time in which the device is idle.
pub(super) fn launches(metrics: &mut Metrics, outcome: &Outcome) {
    let Some(launches) = outcome.launches else {
        return;
    };
    let median_seconds = |name| median(series(outcome, name)).map(|estimate| estimate.value);
    // Median time of the work in which the launches were counted, and the number of units (steps, micro-batches or tokens) in that work.
    let (seconds, units) = match &outcome.measured {
        TaskMeasurements::Train { .. } => (median_seconds(SeriesName::StepSeconds), 1),
        TaskMeasurements::Evaluate { .. } => (median_seconds(SeriesName::BatchSeconds), 1),
        TaskMeasurements::Generate { decoded, .. } => {
            let times =
                median_seconds(SeriesName::FirstTokenSeconds).zip(median_seconds(SeriesName::DecodeSeconds));
            (times.map(|(first, rest)| first + rest), decoded + 1)
        }
        TaskMeasurements::Kernel { .. } => return,
    };
    let count = launches.count as f64;
    let method = "launches of one unit of work after the warm-up";
    insert_reading(metrics, MetricName::LaunchesPerStep, count / units as f64, method);
    if launches.count > 1 {
        let per_launch = launches.issue_seconds / (count - 1.0);
        let method = "wall clock from the first launch to the last, including waits for a full device queue";
        insert_reading(metrics, MetricName::HostSecondsPerLaunch, per_launch, method);
    }
    let name = MetricName::DeviceIdleShare;
    let idle = match (launches.busy_seconds, seconds) {
        (Some(busy), Some(seconds)) => {
            let method = "1 minus the ratio of the summed kernel times (device events) to the median time";
            Metric::reading(name, (1.0 - busy / seconds).max(0.0), method)
        }
        _ => Metric::absent(name, "the device did not time every launch"),
    };
    metrics.insert(name, idle);
}

#[cfg(test)]
mod tests {
    use mantissa_core::TaskKind;
    use mantissa_workloads::Launches;

    use super::*;
    use crate::metrics::testing::{metrics, outcome, training_outcome, values};

    #[test]
    fn launches_are_counted_per_step() {
        let metrics_of_step = |busy_seconds| {
            // The median step takes 2 s.
            let mut outcome = training_outcome(&[1.0; 3]);
            outcome.launches = Some(Launches {
                count: 101,
                issue_seconds: 0.15,
                busy_seconds,
            });
            metrics(TaskKind::Train, &outcome)
        };
        let metrics = metrics_of_step(Some(0.5));
        assert_eq!(metrics[&MetricName::LaunchesPerStep].value, Some(101.0));
        assert_eq!(metrics[&MetricName::HostSecondsPerLaunch].value, Some(0.0015));
        assert_eq!(metrics[&MetricName::DeviceIdleShare].value, Some(0.75));
        // Timing on the device makes each launch a little longer, so the busy time can exceed the step time.
        assert_eq!(
            metrics_of_step(Some(2.1))[&MetricName::DeviceIdleShare].value,
            Some(0.0)
        );
        let unknown = &metrics_of_step(None)[&MetricName::DeviceIdleShare];
        assert_eq!(unknown.value, None);
        assert_eq!(unknown.method, "the device did not time every launch");
    }

    #[test]
    fn launches_of_generation_are_counted_per_token() {
        let measured = TaskMeasurements::Generate {
            weights: None,
            texts: 2,
            prompt_tokens: 5,
            decoded: 9,
            windows: vec![],
        };
        let series = vec![
            values(SeriesName::FirstTokenSeconds, &[0.1]),
            values(SeriesName::DecodeSeconds, &[0.9]),
        ];
        let generation = Outcome {
            launches: Some(Launches {
                count: 200,
                issue_seconds: 0.5,
                busy_seconds: Some(0.25),
            }),
            ..outcome(measured, series)
        };
        let metrics = metrics(TaskKind::Generate, &generation);
        assert_eq!(metrics[&MetricName::LaunchesPerStep].value, Some(20.0));
        assert_eq!(metrics[&MetricName::DeviceIdleShare].value, Some(0.75));
    }
}
