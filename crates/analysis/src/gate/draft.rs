//! Way of judging a comparison: exactly, by a test, or not at all.

use super::compared::{Compared, agree};
use crate::{Doubt, Scale};

/// Way of judging a comparison.
pub(super) enum Draft {
    /// Inconclusive without a test.
    Doubt(Doubt),
    /// Deterministic values that agree in all processes.
    Exact,
    /// Measurements.
    Test,
}

/// Chooses the way of judging a comparison that requires at least `repeats` processes on either side.
pub(super) fn draft(compared: &Compared<'_>, repeats: usize) -> Draft {
    let both = || compared.baseline.iter().chain(compared.candidate);
    let sensible = |size: f64| size > 0.0 && size.is_finite();
    let lowest = match compared.floor.scale {
        Scale::Ratio => 0.0,
        Scale::Difference => f64::NEG_INFINITY,
    };
    if !sensible(compared.floor.size) || !both().all(|value| value.is_finite() && *value >= lowest) {
        return Draft::Doubt(Doubt::NoRatio);
    }
    if compared.baseline.len().min(compared.candidate.len()) < repeats {
        return Draft::Doubt(Doubt::TooFewRepeats);
    }
    let sides_agree = agree(compared);
    let same = sides_agree && compared.baseline[0] == compared.candidate[0];
    let must_agree = compared.metric.is_counted()
        || compared.metric.is_learned()
        || compared.floor.scale == Scale::Difference;
    // A ratio to 0 does not exist. An error that changes from 0 to another value is a finding even if it varies.
    let zero = |values: &[f64]| values.iter().all(|value| *value == 0.0);
    let some = |values: &[f64]| values.iter().all(|value| *value > 0.0);
    let from_zero = compared.floor.scale == Scale::Ratio
        && (zero(compared.baseline) && some(compared.candidate)
            || some(compared.baseline) && zero(compared.candidate));
    if must_agree && (sides_agree || from_zero) && (same || compared.shared_error <= 0.0) {
        Draft::Exact
    } else {
        Draft::Test
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
    fn four_processes_pass_nothing_and_find_nothing_even_of_what_never_varies() {
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
    fn readings_that_happen_to_agree_are_still_readings() {
        let ruling = &gate(&[seconds(&[1.0; 5], &[1.05; 5])], Rules::default())[0];
        assert_eq!(ruling.verdict, Verdict::Regressed);
        assert!(ruling.p.unwrap() > 0.0 && ruling.change.unwrap().interval.low < 1.05);
    }

    #[test]
    fn what_cannot_be_compared_is_inconclusive_and_no_member_of_the_family() {
        let none = Verdict::Inconclusive(Doubt::NoRatio);
        assert_eq!(verdict(seconds(&[0.0, 1.0, 1.0, 1.0, 1.0], &QUIET)), none);
        assert_eq!(verdict(seconds(&[f64::NAN; 5], &QUIET)), none);
        assert_eq!(verdict(seconds(&[-1.0; 5], &QUIET)), none);
        let slower = QUIET.map(|value| value * 1.05);
        let senseless = Compared {
            floor: Floor::ratio(f64::NAN),
            ..seconds(&QUIET, &slower)
        };
        assert_eq!(verdict(senseless), none);
        let rulings = gate(&[senseless, seconds(&QUIET, &slower)], Rules::default());
        assert_eq!(rulings[1].p, rulings[1].adjusted_p);
        assert!(gate(&[], Rules::default()).is_empty());
    }
}
