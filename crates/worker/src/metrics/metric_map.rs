//! Map of the metrics of a record, and functions that insert metrics.

use std::collections::BTreeMap;

use mantissa_analysis::Estimate;
use mantissa_core::{Metric, MetricName};

pub(super) type Metrics = BTreeMap<MetricName, Metric>;

/// Inserts a value without an interval.
pub(super) fn insert_reading(metrics: &mut Metrics, name: MetricName, value: f64, method: &str) {
    metrics.insert(name, Metric::reading(name, value, method));
}

/// Inserts an estimate, or an absent metric with the reason `otherwise` if there is no estimate.
pub(super) fn insert_estimate(
    metrics: &mut Metrics,
    name: MetricName,
    estimate: Option<Estimate>,
    otherwise: &str,
) {
    let metric = estimate.map_or_else(
        || Metric::absent(name, otherwise),
        |estimate| estimate.metric(name),
    );
    metrics.insert(name, metric);
}
