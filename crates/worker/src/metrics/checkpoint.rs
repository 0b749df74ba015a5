//! Cost of reading the weights from a checkpoint.

use mantissa_core::MetricName;
use mantissa_workloads::ReadWeights;

use super::metric_map::{Metrics, insert_reading};

/// Adds the cost of reading the weights, if weights were read.
pub(super) fn checkpoint_cost(metrics: &mut Metrics, weights: Option<&ReadWeights>) {
    let Some(&ReadWeights::Here { bytes, seconds }) = weights else {
        return;
    };
    insert_reading(metrics, MetricName::WeightsSeconds, seconds, "wall clock");
    insert_reading(
        metrics,
        MetricName::LoadedBytes,
        bytes as f64,
        "as stored in the file",
    );
}
