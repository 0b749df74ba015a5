//! Memory by part: weights, activations, gradients and optimizer state, measured and estimated.

use mantissa_core::{Metric, MetricName};
use mantissa_workloads::{MemoryEstimate, MemoryParts};

use super::metric_map::Metrics;

/// Adds the measured memory parts.
pub(super) fn memory_parts(metrics: &mut Metrics, memory: Option<&MemoryParts>) {
    let mut part = |name, bytes: fn(&MemoryParts) -> u64| {
        let metric = match memory {
            Some(memory) => Metric::reading(name, bytes(memory) as f64, memory.source),
            None => Metric::absent(name, "no allocator could be queried"),
        };
        metrics.insert(name, metric);
    };
    part(MetricName::WeightsBytes, |memory| memory.weights);
    part(MetricName::WeightCopiesBytes, |memory| memory.weight_copies);
    part(MetricName::ActivationsBytes, |memory| memory.activations);
    part(MetricName::GradientsBytes, |memory| memory.gradients);
    part(MetricName::OptimizerBytes, |memory| memory.optimizer);
}

/// Adds the estimates of the memory parts: computed from shapes, without the rounding and bookkeeping of an allocator.
pub(super) fn memory_estimates(metrics: &mut Metrics, estimated: Option<&MemoryEstimate>) {
    let mut part = |name, bytes: fn(&MemoryEstimate) -> u64| {
        let metric = match estimated {
            Some(estimated) => Metric {
                n: None,
                ..Metric::reading(
                    name,
                    bytes(estimated) as f64,
                    "estimated from shapes, not measured",
                )
            },
            None => Metric::absent(name, "the operations of the model are not known"),
        };
        metrics.insert(name, metric);
    };
    part(MetricName::EstimatedWeightsBytes, |bytes| bytes.weights);
    part(MetricName::EstimatedWeightCopiesBytes, |bytes| {
        bytes.weight_copies
    });
    part(MetricName::EstimatedActivationsBytes, |bytes| bytes.activations);
    part(MetricName::EstimatedGradientsBytes, |bytes| bytes.gradients);
    part(MetricName::EstimatedOptimizerBytes, |bytes| bytes.optimizer);
}

#[cfg(test)]
mod tests {
    use mantissa_core::TaskKind;

    use super::*;
    use crate::metrics::testing::{metrics, training_outcome};

    #[test]
    fn memory_estimates_are_added_without_measurements() {
        let metrics = metrics(TaskKind::Train, &training_outcome(&[0.7]));
        let weights = &metrics[&MetricName::EstimatedWeightsBytes];
        assert_eq!((weights.value, weights.n), (Some(40.0), None));
        assert!(weights.method.contains("not measured"), "{}", weights.method);
        assert_eq!(metrics[&MetricName::EstimatedOptimizerBytes].value, Some(80.0));
        assert_eq!(metrics[&MetricName::EstimatedWeightCopiesBytes].value, Some(0.0));
        assert_eq!(metrics[&MetricName::WeightsBytes].value, None);
    }
}
