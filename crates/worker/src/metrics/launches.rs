//! Metrics of kernel launches.

use mantissa_analysis::median;
use mantissa_core::{Metric, MetricName, SeriesName};
use mantissa_workloads::{Outcome, TaskMeasurements};

use super::{
    metric_map::{Metrics, reading},
    samples::series,
};

/// Computes the launches per unit of work and the share of its time in which the device is idle.
pub(super) fn launches(metrics: &mut Metrics, outcome: &Outcome) {
    let Some(launches) = outcome.launches else {
        return;
    };
    let middle = |name| median(series(outcome, name)).map(|estimate| estimate.value);
    // Seconds of the work with the counted launches, and its number of units.
    let (seconds, units) = match &outcome.measured {
        TaskMeasurements::Train { .. } => (middle(SeriesName::StepSeconds), 1),
        TaskMeasurements::Evaluate { .. } => (middle(SeriesName::BatchSeconds), 1),
        TaskMeasurements::Generate { decoded, .. } => {
            let both = middle(SeriesName::FirstTokenSeconds).zip(middle(SeriesName::DecodeSeconds));
            (both.map(|(first, rest)| first + rest), decoded + 1)
        }
        TaskMeasurements::Kernel { .. } => return,
    };
    let count = launches.count as f64;
    let method = "launches of one unit of work after the warm-up";
    reading(metrics, MetricName::LaunchesPerStep, count / units as f64, method);
    if launches.count > 1 {
        let each = launches.issue_seconds / (count - 1.0);
        let method = "wall clock from the first launch to the last, including waits for a full device queue";
        reading(metrics, MetricName::HostSecondsPerLaunch, each, method);
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
    use crate::metrics::testing::{metrics, outcome, trained, values};

    #[test]
    fn launches_are_those_of_a_step_and_the_device_waits_for_the_rest_of_its_time() {
        let observed = |busy_seconds| {
            // The median step takes 2 s.
            let mut trained = trained(&[1.0; 3]);
            trained.launches = Some(Launches {
                count: 101,
                issue_seconds: 0.15,
                busy_seconds,
            });
            metrics(TaskKind::Train, &trained)
        };
        let metrics = observed(Some(0.5));
        assert_eq!(metrics[&MetricName::LaunchesPerStep].value, Some(101.0));
        assert_eq!(metrics[&MetricName::HostSecondsPerLaunch].value, Some(0.0015));
        assert_eq!(metrics[&MetricName::DeviceIdleShare].value, Some(0.75));
        // Timing on the device makes each launch a little longer.
        assert_eq!(observed(Some(2.1))[&MetricName::DeviceIdleShare].value, Some(0.0));
        let unknown = &observed(None)[&MetricName::DeviceIdleShare];
        assert_eq!(unknown.value, None);
        assert_eq!(unknown.method, "the device did not time every launch");
    }

    #[test]
    fn launches_of_texts_are_those_of_a_token() {
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
        let written = Outcome {
            launches: Some(Launches {
                count: 200,
                issue_seconds: 0.5,
                busy_seconds: Some(0.25),
            }),
            ..outcome(measured, series)
        };
        let metrics = metrics(TaskKind::Generate, &written);
        assert_eq!(metrics[&MetricName::LaunchesPerStep].value, Some(20.0));
        assert_eq!(metrics[&MetricName::DeviceIdleShare].value, Some(0.75));
    }
}
