//! Estimates with confidence intervals.

use mantissa_core::{Metric, MetricName};

/// Confidence level of every interval in this crate, unless its documentation states another.
pub const CONFIDENCE: f64 = 0.95;

/// Standard normal quantile for [`CONFIDENCE`], Φ⁻¹(0.975).
pub(crate) const Z: f64 = 1.959_963_984_540_054;

/// Closed interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end, not smaller than `low`.
    pub high: f64,
}

impl Interval {
    /// Returns true if `x` lies in the interval, ends included.
    pub fn contains(self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Returns true if the two intervals share a point.
    pub fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Finite statistic with its interval, number of samples and method.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Value of the statistic.
    pub value: f64,
    /// Interval at [`CONFIDENCE`]; `None` if it cannot be computed, e.g. from too few samples.
    pub interval: Option<Interval>,
    /// Number of samples.
    pub n: u64,
    /// Name of the method, as written to records.
    pub method: &'static str,
}

impl Estimate {
    /// Converts the estimate to a metric of a record. The caller must ensure that the unit matches.
    pub fn metric(&self, name: MetricName) -> Metric {
        Metric {
            low: self.interval.map(|interval| interval.low),
            high: self.interval.map(|interval| interval.high),
            n: Some(self.n),
            ..Metric::reading(name, self.value, self.method)
        }
    }

    /// Converts a metric of a record to an estimate. Returns `None` if the metric has no value. Drops an interval with only one end.
    pub fn from_metric(metric: &Metric) -> Option<Self> {
        let interval = metric
            .low
            .zip(metric.high)
            .map(|(low, high)| Interval { low, high });
        Some(Self {
            value: metric.value?,
            interval,
            n: metric.n.unwrap_or(1),
            method: "as recorded",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_intervals_overlap() {
        let a = Interval { low: 1.0, high: 2.0 };
        assert!(a.overlaps(Interval { low: 2.0, high: 3.0 }));
        assert!(!a.overlaps(Interval { low: 2.1, high: 3.0 }));
        assert!(a.contains(1.0) && a.contains(2.0) && !a.contains(2.1));
    }

    #[test]
    fn estimate_round_trips_through_a_metric() {
        let interval = Some(Interval { low: 1.0, high: 3.0 });
        let estimate = Estimate {
            value: 2.0,
            interval,
            n: 5,
            method: "median, order statistics",
        };
        let metric = estimate.metric(MetricName::StepSeconds);
        assert_eq!(metric.unit, MetricName::StepSeconds.unit());
        assert_eq!(
            (metric.value, metric.low, metric.high, metric.n),
            (Some(2.0), Some(1.0), Some(3.0), Some(5))
        );
        assert_eq!(Estimate::from_metric(&metric).unwrap().interval, interval);
    }

    #[test]
    fn metric_without_a_value_has_no_estimate() {
        let metric = Metric::reading(MetricName::FinalLoss, f64::NAN, "mean");
        assert_eq!(Estimate::from_metric(&metric), None);
    }
}
