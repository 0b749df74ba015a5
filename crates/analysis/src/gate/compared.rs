//! Metric of a cell on both sides of a comparison.

use mantissa_core::MetricName;

use crate::{Floor, Scale};

/// Metric of a cell on both sides, with one value per process.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// The metric. It determines the direction of improvement, the prior on the noise, and whether all processes must agree.
    pub metric: MetricName,
    /// The baseline's values.
    pub baseline: &'a [f64],
    /// The candidate's values.
    pub candidate: &'a [f64],
    /// Smallest relevant change; by default [`Floor::of`] the metric.
    pub floor: Floor,
    /// Usual change between runs of this cell ([`crate::noise_fence`]), on the floor's scale; `None` without a history.
    pub fence: Option<f64>,
    /// Standard error that more processes do not reduce: [`examples_error`] for accuracies, otherwise 0.
    pub shared_error: f64,
    /// True if the runs of both sides alternated in time (were interleaved), so both saw the same clocks and load of the machine.
    pub turns: bool,
}

/// Returns true if all processes of each side have the same value. The sides may differ.
pub(super) fn processes_agree(compared: &Compared<'_>) -> bool {
    let constant = |values: &[f64]| values.windows(2).all(|two| two[0] == two[1]);
    constant(compared.baseline) && constant(compared.candidate)
}

pub(super) fn threshold(compared: &Compared<'_>) -> f64 {
    compared.floor.size.max(compared.fence.unwrap_or(0.0))
}

/// Converts a value to the scale of the test: the logarithm on a ratio scale.
pub(super) fn log_or_self(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Ratio => value.ln(),
        Scale::Difference => value,
    }
}

/// Computes the standard error of the difference of two accuracies due to the finite number of test examples. Treats the sides as
/// independent, but they see the same examples and mostly agree. The error is therefore overestimated. If the predictions are available,
/// [`crate::paired_accuracy`] detects much smaller differences. Returns `None` without examples, or if an accuracy is not between 0 and 1.
pub fn examples_error(baseline: f64, candidate: f64, examples: u64) -> Option<f64> {
    let variance_of = |share: f64| {
        (0.0..=1.0)
            .contains(&share)
            .then(|| share * (1.0 - share) / examples as f64)
    };
    let variance = variance_of(baseline)? + variance_of(candidate)?;
    (examples > 0).then(|| variance.sqrt())
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::{Compared, examples_error};
    use crate::{
        Doubt, Verdict,
        gate::test_data::{compared, verdict},
    };

    #[test]
    fn accuracy_changes_need_enough_examples() {
        let accuracy = |examples: u64| {
            let fewer = Compared {
                shared_error: examples_error(0.80, 0.77, examples).unwrap(),
                ..compared(MetricName::TestAccuracy, &[0.80; 5], &[0.77; 5])
            };
            verdict(fewer)
        };
        assert_eq!(accuracy(1_000), Verdict::Inconclusive(Doubt::TooNoisy));
        assert_eq!(accuracy(100_000), Verdict::Regressed);
        let same = Compared {
            shared_error: 0.1,
            ..compared(MetricName::TestAccuracy, &[0.80; 5], &[0.80; 5])
        };
        assert_eq!(
            verdict(same),
            Verdict::Unchanged,
            "equal accuracies are unchanged"
        );
        assert_eq!(examples_error(0.5, 0.5, 0), None);
        assert_eq!(examples_error(1.5, 0.5, 10), None);
    }
}
