//! Shares of overflows, underflows and lost updates in the observed tensors.

use mantissa_core::{Metric, MetricName, RangeCounts, TensorClass, TensorRange};

use super::metric_map::Metrics;

/// Adds shares of all observed values, if values were observed.
pub(super) fn tensor_ranges(metrics: &mut Metrics, ranges: &[TensorRange]) {
    if ranges.is_empty() {
        return;
    }
    let update = |range: &&TensorRange| range.class == TensorClass::WeightUpdate;
    // Underflow is visible only in comparison with a wider format.
    let wider = || ranges.iter().filter(|range| range.format != range.beside);
    let alike = ranges.iter().all(|range| range.format == range.beside);
    let (updates, vanishing): (Vec<&TensorRange>, Vec<_>) = wider().partition(update);
    let others: Vec<&TensorRange> = ranges.iter().filter(|range| !update(range)).collect();
    let every: Vec<&TensorRange> = ranges.iter().collect();
    type Count = fn(&RangeCounts) -> u64;
    let mut share = |name, ranges: &[&TensorRange], count: Count, all: Count, of: &str| {
        let sum = |count: Count| ranges.iter().map(|range| count(&range.counts)).sum::<u64>();
        let (some, all) = (sum(count), sum(all));
        let metric = match all {
            0 if alike => Metric::absent(name, "there is no wider format to compare with"),
            0 => Metric::absent(name, "no step was observed"),
            all => Metric {
                n: Some(all),
                ..Metric::reading(name, some as f64 / all as f64, of)
            },
        };
        metrics.insert(name, metric);
    };
    let elements: Count = |counts| counts.elements;
    share(
        MetricName::OverflowShare,
        &every,
        |counts| counts.overflow,
        elements,
        "layer outputs, gradients, optimizer state and weight updates of the observed steps",
    );
    let values = "layer outputs, gradients and optimizer state of the observed steps";
    share(
        MetricName::UnderflowShare,
        &vanishing,
        |counts| counts.underflow,
        elements,
        values,
    );
    share(
        MetricName::SubnormalShare,
        &others,
        |counts| counts.subnormal,
        elements,
        values,
    );
    // An element whose value does not change in the wider format either has not lost an update.
    share(
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
    fn beside_its_own_format_nothing_is_said_to_vanish() {
        let of = |format: Format, beside: Format| {
            let range = |class| TensorRange {
                step: 1,
                layer: "a".into(),
                class,
                format,
                beside,
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
        assert_eq!(of(Format::F16, Format::F32), [Some(0.0), Some(0.25), Some(0.5)]);
        assert_eq!(of(Format::F32, Format::F32), [Some(0.0), None, None]);
    }
}
