//! Metrics of a kernel: throughput and numeric error.

use mantissa_core::{Metric, MetricName, SeriesName};
use mantissa_workloads::{NumericError, Outcome, TaskMeasurements};

use super::{metric_map::Metrics, samples::unthrottled_times, throughput::rate};

/// Adds the metrics of a kernel.
pub(super) fn kernel(metrics: &mut Metrics, outcome: &Outcome) {
    let TaskMeasurements::Kernel {
        flops,
        traffic,
        cublas,
        error,
        clock,
        ..
    } = &outcome.measured
    else {
        return;
    };
    let (launches, condition) = unthrottled_times(
        outcome,
        SeriesName::LaunchSeconds,
        SeriesName::Throttled,
        usize::MAX,
    );
    let mut rate = |name, done: f64, launches: Vec<f64>, condition: &str, clock: &str| {
        rate(metrics, name, done, launches, ("launch", condition), clock)
    };
    if let Some(flops) = flops {
        rate(
            MetricName::FlopsPerSecond,
            *flops,
            launches.clone(),
            condition,
            clock,
        );
    }
    if let (Some(flops), Some(Ok(cublas))) = (flops, cublas) {
        let (launches, condition) = unthrottled_times(
            outcome,
            SeriesName::CublasSeconds,
            SeriesName::CublasThrottled,
            usize::MAX,
        );
        let of_cublas = format!(" of cuBLASLt in the same process{condition}");
        rate(
            MetricName::CublasFlopsPerSecond,
            *flops,
            launches,
            &of_cublas,
            cublas.clock,
        );
    }
    if let Some(traffic) = traffic {
        rate(
            MetricName::ValuesPerSecond,
            traffic.values as f64,
            launches.clone(),
            condition,
            clock,
        );
        rate(
            MetricName::BytesPerSecond,
            traffic.moved as f64,
            launches,
            condition,
            clock,
        );
        let (copies, condition) = unthrottled_times(
            outcome,
            SeriesName::CopySeconds,
            SeriesName::CopyThrottled,
            usize::MAX,
        );
        let of_copy = format!(" of a copy in the same process{condition}");
        rate(
            MetricName::CopyBytesPerSecond,
            traffic.copied as f64,
            copies,
            &of_copy,
            traffic.clock,
        );
    }
    if let Some(Err(reason)) = cublas {
        let name = MetricName::CublasFlopsPerSecond;
        metrics.insert(name, Metric::absent(name, reason));
    }
    let mut insert = |name, get: fn(&NumericError) -> f64| {
        let metric = error.as_ref().map_or_else(
            || Metric::absent(name, "the result is not finite"),
            |error| Metric::reading(name, get(error), "against float64 on the same quantised inputs"),
        );
        metrics.insert(name, metric);
    };
    insert(MetricName::RelativeError, |error| error.relative);
    insert(MetricName::QuantisationError, |error| error.quantisation);
    insert(MetricName::AccumulationError, |error| error.accumulation);
    insert(MetricName::RoundingError, |error| error.rounding);
    insert(MetricName::MagnitudeBias, |error| error.bias);
    insert(MetricName::MaxUlp, |error| error.max_ulp);
}

#[cfg(test)]
mod tests {
    use mantissa_core::TaskKind;
    use mantissa_workloads::Traffic;

    use super::*;
    use crate::metrics::testing::{metrics, outcome, values};

    #[test]
    fn throughput_is_computed_from_the_median_launch_time() {
        let measured = TaskMeasurements::Kernel {
            flops: Some(6.0),
            traffic: None,
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: Some(NumericError {
                relative: 1e-3,
                quantisation: 6e-4,
                accumulation: 8e-4,
                rounding: 0.0,
                bias: -1e-5,
                max_ulp: 3.0,
            }),
        };
        let launches = [1.0, 2.0, 3.0, 2.0, 2.0, 1.0, 3.0];
        let metrics = metrics(
            TaskKind::Kernel,
            &outcome(measured, vec![values(SeriesName::LaunchSeconds, &launches)]),
        );
        let rate = &metrics[&MetricName::FlopsPerSecond];
        assert_eq!((rate.value, rate.n), (Some(3.0), Some(7)));
        assert!(rate.low < rate.value && rate.value <= rate.high, "{rate:?}");
        assert_eq!(metrics[&MetricName::RelativeError].value, Some(1e-3));
        assert_eq!(metrics[&MetricName::MaxUlp].value, Some(3.0));
        assert_eq!(metrics[&MetricName::MagnitudeBias].value, Some(-1e-5));
    }

    #[test]
    fn kernel_and_copy_rates_use_separate_times() {
        let measured = TaskMeasurements::Kernel {
            flops: None,
            traffic: Some(Traffic {
                values: 2,
                moved: 12,
                copied: 16,
                clock: "a clock",
                windows: vec![],
            }),
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: None,
        };
        let series = vec![
            values(SeriesName::LaunchSeconds, &[4.0; 7]),
            // The clock was throttled during the slow copies.
            values(
                SeriesName::CopySeconds,
                &[2.0, 2.0, 8.0, 2.0, 2.0, 2.0, 8.0, 8.0, 2.0, 8.0, 8.0],
            ),
            values(
                SeriesName::CopyThrottled,
                &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
            ),
        ];
        let metrics = metrics(TaskKind::Kernel, &outcome(measured, series));
        assert!(!metrics.contains_key(&MetricName::FlopsPerSecond));
        assert_eq!(metrics[&MetricName::ValuesPerSecond].value, Some(0.5));
        assert_eq!(metrics[&MetricName::BytesPerSecond].value, Some(3.0));
        assert_eq!(metrics[&MetricName::CopyBytesPerSecond].value, Some(8.0));
    }

    #[test]
    fn the_error_of_a_nonfinite_result_is_absent_with_a_reason() {
        let measured = TaskMeasurements::Kernel {
            flops: Some(6.0),
            traffic: None,
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: None,
        };
        let metric = &metrics(TaskKind::Kernel, &outcome(measured, vec![]))[&MetricName::RelativeError];
        assert_eq!(
            (metric.value, metric.method.as_str()),
            (None, "the result is not finite")
        );
    }
}
