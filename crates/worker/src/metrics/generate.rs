//! Metrics of text generation.

use mantissa_analysis::median;
use mantissa_core::{MetricName, SeriesName};
use mantissa_workloads::{Outcome, TaskMeasurements};

use super::{
    checkpoint::checkpoint_cost,
    metric_map::{Metrics, insert_estimate},
    samples::unthrottled_times,
    throughput::rate,
};

/// Adds the metrics of text generation.
pub(super) fn generate(metrics: &mut Metrics, outcome: &Outcome) {
    let TaskMeasurements::Generate {
        weights,
        texts,
        decoded,
        ..
    } = &outcome.measured
    else {
        return;
    };
    let times = |name| unthrottled_times(outcome, name, SeriesName::Throttled, usize::MAX);
    let name = MetricName::FirstTokenSeconds;
    let (first, _) = times(SeriesName::FirstTokenSeconds);
    insert_estimate(metrics, name, median(first), "no texts");
    let (decoding, condition) = times(SeriesName::DecodeSeconds);
    let per_token = decoding.iter().map(|seconds| seconds / *decoded as f64);
    insert_estimate(metrics, MetricName::TokenSeconds, median(per_token), "no texts");
    rate(
        metrics,
        MetricName::DecodeTokensPerSecond,
        (texts * decoded) as f64,
        decoding,
        ("text", condition),
        "wall clock",
    );
    checkpoint_cost(metrics, weights.as_ref());
}
