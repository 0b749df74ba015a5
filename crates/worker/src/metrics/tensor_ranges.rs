//! Shares of overflows, underflows and lost updates in the observed tensors.

use mantissa_core::{Metric, MetricName, RangeCounts, TensorClass, TensorRange};

use super::metric_map::Metrics;

/// Adds the shares of overflows, underflows, subnormal values and lost updates, if tensors were observed.
pub(super) fn tensor_ranges(metrics: &mut Metrics, ranges: &[TensorRange]) {
    if ranges.is_empty() {
        return;
    }
    let is_update = |range: &&TensorRange| range.class == TensorClass::WeightUpdate;
    // Underflow is visible only in comparison with a wider format.
    let with_wider_reference = || ranges.iter().filter(|range| range.format != range.reference);
    let any_wider_reference = with_wider_reference().next().is_some();
    let (updates, compared_values): (Vec<&TensorRange>, Vec<_>) = with_wider_reference().partition(is_update);
    let values: Vec<&TensorRange> = ranges.iter().filter(|range| !is_update(range)).collect();
    let all: Vec<&TensorRange> = ranges.iter().collect();
    type Count = fn(&RangeCounts) -> u64;
    let mut insert_share = |name, ranges: &[&TensorRange], counted: Count, total: Count, method: &str| {
        let sum = |count: Count| ranges.iter().map(|range| count(&range.counts)).sum::<u64>();
        let metric = match sum(total) {
            0 if !any_wider_reference => Metric::absent(name, "there is no wider format to compare with"),
            0 => Metric::absent(name, "no element of this kind was observed"),
            total => Metric {
                n: Some(total),
                ..Metric::reading(name, sum(counted) as f64 / total as f64, method)
            },
        };
        metrics.insert(name, metric);
    };
    let elements: Count = |counts| counts.elements;
    insert_share(
        MetricName::OverflowShare,
        &all,
        |counts| counts.overflow,
        elements,
        "layer outputs, gradients, optimizer state and weight updates of the observed steps",
    );
    let method = "layer outputs, gradients and optimizer state of the observed steps";
    insert_share(
        MetricName::UnderflowShare,
        &compared_values,
        |counts| counts.underflow,
        elements,
        method,
    );
    insert_share(
        MetricName::SubnormalShare,
        &values,
        |counts| counts.subnormal,
        elements,
        method,
    );
    // The total is the sum of `exponents`, which counts the elements that change in the wider format. Other elements cannot lose an update.
    insert_share(
        MetricName::LostUpdateShare,
        &updates,
        |counts| counts.underflow,
        |counts| counts.exponents.iter().sum(),
        "elements of parameters that the observed steps would change in a wider format",
    );
}

#[cfg(test)]
mod tests {
    use mantissa_core::Format;

    use super::*;

    #[test]
    fn underflow_is_absent_without_a_wider_format() {
        let shares = |format: Format, reference: Format| {
            let range = |class| TensorRange {
                step: 1,
                layer: "a".into(),
                class,
                format,
                reference,
                counts: RangeCounts {
                    elements: 4,
                    underflow: 1,
                    exponents: vec![2],
                    ..RangeCounts::default()
                },
            };
            let mut metrics = Metrics::default();
            tensor_ranges(
                &mut metrics,
                &[TensorClass::Gradient, TensorClass::WeightUpdate].map(range),
            );
            [
                MetricName::OverflowShare,
                MetricName::UnderflowShare,
                MetricName::LostUpdateShare,
            ]
            .map(|name| metrics[&name].value)
        };
        assert_eq!(
            shares(Format::F16, Format::F32),
            [Some(0.0), Some(0.25), Some(0.5)]
        );
        assert_eq!(shares(Format::F32, Format::F32), [Some(0.0), None, None]);
    }
}
