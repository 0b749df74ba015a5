//! Method of judging a comparison: exact, by a test, or none.

use super::compared::{Compared, processes_agree};
use crate::{Doubt, Scale};

/// Method of judging a comparison.
pub(super) enum Method {
    /// The verdict is inconclusive without a test.
    Inconclusive(Doubt),
    /// Deterministic values that agree in all processes of each side.
    Exact,
    /// Measurements, which are tested.
    Test,
}

/// Chooses the method of judging a comparison. A verdict requires at least `repeats` processes on either side.
pub(super) fn choose_method(compared: &Compared<'_>, repeats: usize) -> Method {
    let all_values = || compared.baseline.iter().chain(compared.candidate);
    let is_valid = |size: f64| size > 0.0 && size.is_finite();
    let min_value = match compared.floor.scale {
        Scale::Ratio => 0.0,
        Scale::Difference => f64::NEG_INFINITY,
    };
    if !is_valid(compared.floor.size) || !all_values().all(|value| value.is_finite() && *value >= min_value) {
        return Method::Inconclusive(Doubt::NoRatio);
    }
    if compared.baseline.len().min(compared.candidate.len()) < repeats {
        return Method::Inconclusive(Doubt::TooFewRepeats);
    }
    let sides_agree = processes_agree(compared);
    let same = sides_agree && compared.baseline[0] == compared.candidate[0];
    let must_agree = compared.metric.is_counted()
        || compared.metric.is_learned()
        || compared.floor.scale == Scale::Difference;
    // A ratio to 0 does not exist. A change between 0 and positive values is therefore a finding, even if the positive values vary.
    let all_zero = |values: &[f64]| values.iter().all(|value| *value == 0.0);
    let all_positive = |values: &[f64]| values.iter().all(|value| *value > 0.0);
    let from_zero = compared.floor.scale == Scale::Ratio
        && (all_zero(compared.baseline) && all_positive(compared.candidate)
            || all_positive(compared.baseline) && all_zero(compared.candidate));
    if must_agree && (sides_agree || from_zero) && (same || compared.shared_error <= 0.0) {
        Method::Exact
    } else {
        Method::Test
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::Compared;
    use crate::{
        Doubt, Floor, Rules, Verdict, gate,
        gate::test_data::{QUIET, compared, seconds, verdict},
    };

    #[test]
    fn four_processes_are_inconclusive_even_if_they_agree() {
        for candidate in [&[9.0; 5], &[1.0; 5]] {
            for metric in [MetricName::StepSeconds, MetricName::WeightsBytes] {
                assert_eq!(
                    verdict(compared(metric, &[1.0; 4], candidate)),
                    Verdict::Inconclusive(Doubt::TooFewRepeats)
                );
            }
        }
    }

    #[test]
    fn equal_measurements_are_still_tested() {
        let ruling = &gate(&[seconds(&[1.0; 5], &[1.05; 5])], Rules::default())[0];
        assert_eq!(ruling.verdict, Verdict::Regressed);
        assert!(ruling.p.unwrap() > 0.0 && ruling.change.unwrap().interval.low < 1.05);
    }

    #[test]
    fn invalid_values_are_inconclusive_and_not_in_the_family() {
        let none = Verdict::Inconclusive(Doubt::NoRatio);
        assert_eq!(verdict(seconds(&[0.0, 1.0, 1.0, 1.0, 1.0], &QUIET)), none);
        assert_eq!(verdict(seconds(&[f64::NAN; 5], &QUIET)), none);
        assert_eq!(verdict(seconds(&[-1.0; 5], &QUIET)), none);
        let slower = QUIET.map(|value| value * 1.05);
        let invalid = Compared {
            floor: Floor::ratio(f64::NAN),
            ..seconds(&QUIET, &slower)
        };
        assert_eq!(verdict(invalid), none);
        let rulings = gate(&[invalid, seconds(&QUIET, &slower)], Rules::default());
        assert_eq!(rulings[1].p, rulings[1].adjusted_p);
        assert!(gate(&[], Rules::default()).is_empty());
    }
}
