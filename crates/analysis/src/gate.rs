//! Regression gate: detects relevant changes while bounding the false-positive rate.

mod compared;
mod drift;
mod judge;
mod method;
mod moderated_test;
mod rules;
#[cfg(test)]
mod test_data;
mod verdict;

pub use compared::{Compared, examples_error};
pub use drift::{GATE_MAX_DRIFT, GATE_MIN_DRIFT_CELLS, GATE_MIN_PROGRAM_SHIFT};
pub use moderated_test::GATE_MIN_DEVIATION;
pub use rules::{GATE_LEVEL, GATE_REPEATS, Rules};
pub use verdict::{Change, GATE_POWER, GateVerdict};

use self::{
    compared::{log_or_self, processes_agree},
    drift::{CommonShift, common_shifts},
    judge::{judge_exact, judge_test, without_test},
    method::{Method, choose_method},
    moderated_test::{moderated_welch, priors},
};
use crate::{Doubt, Verdict, Welch, holm};

/// Judges a family of comparisons: all metrics and cells that one gate compares.
///
/// Measurements are compared by Welch's t-test, on logarithms if the floor is a ratio. The test has a prior on the noise, learned from all
/// cells of the same metric ([`prior`](crate::prior())). Without the prior, five repeats on either side could not be significant among 160
/// comparisons.
///
/// The threshold is the floor (smallest relevant change) or the fence (usual noise of the cell), whichever is larger. *Improved* and
/// *regressed* require an adjusted p-value of at most the level **and** an estimate beyond the threshold. *Unchanged* requires a 95 %
/// interval within the threshold, not corrected for the family. Everything else is inconclusive.
///
/// Cells whose runs are interleaved need no correction because both sides saw the same states of the machine (clocks, load). For times,
/// rates and energies of other cells, the common shift is the median change over the cells of a metric (at least [`GATE_MIN_DRIFT_CELLS`]):
/// - A shift within the floor and [`GATE_MAX_DRIFT`] is attributed to the machine and subtracted.
/// - Of the larger shifts, those above [`GATE_MIN_PROGRAM_SHIFT`] or, with enough fences, above twice the median fence are attributed to the
///   program and kept.
/// - In between, the cause of the shift is unknown. The shift is subtracted, and a finding requires a change of more than
///   [`GATE_MIN_PROGRAM_SHIFT`]. Smaller changes are *unchanged* or inconclusive ([`Doubt::Shared`]).
///
/// An estimate is a finding only if it exceeds the threshold (in the last case, also [`GATE_MIN_PROGRAM_SHIFT`]) both with and without the
/// subtraction. It is *unchanged* only if it is within the threshold both with and without the subtraction.
///
/// Deterministic values are requested bytes, errors on seeded inputs, and results of training with the same seed. If they agree in all
/// processes of each side, they are not tested: any change beyond the threshold is a finding. If they vary, they are treated as
/// measurements. Accuracies with a shared error are an exception: they are tested unless all values are equal. If all processes of each side
/// agree, the level of this test is not divided by the number of looks.
pub fn gate(family: &[Compared<'_>], rules: Rules) -> Vec<GateVerdict> {
    let methods: Vec<Method> = family
        .iter()
        .map(|compared| choose_method(compared, rules.repeats))
        .collect();
    let priors = priors(family, &methods);
    let tests: Vec<Option<Welch>> = family
        .iter()
        .zip(&methods)
        .map(|(compared, method)| match method {
            Method::Test => moderated_welch(compared, priors.get(&compared.metric)),
            _ => None,
        })
        .collect();
    let common_shifts = common_shifts(family, &tests);
    let common_shift_of = |compared: &Compared<'_>| match compared.turns {
        true => CommonShift::default(),
        false => common_shifts.get(&compared.metric).copied().unwrap_or_default(),
    };
    let p_values: Vec<f64> = family
        .iter()
        .zip(&tests)
        .map(|(compared, test)| match test {
            Some(test) => {
                test.p_of(log_or_self(compared.floor.scale, test.value) - common_shift_of(compared).shift)
            }
            None => f64::NAN,
        })
        .collect();
    let members = tests.iter().flatten().count();
    let adjusted = holm(&p_values);
    family
        .iter()
        .zip(methods)
        .zip(tests.into_iter().zip(p_values.into_iter().zip(adjusted)))
        .map(|((compared, method), (test, p))| match (method, test) {
            (Method::Inconclusive(doubt), _) => without_test(compared, Verdict::Inconclusive(doubt), None),
            (Method::Exact, _) => judge_exact(compared),
            (Method::Test, Some(welch)) => {
                let looks = match compared.shared_error > 0.0 && processes_agree(compared) {
                    true => 1,
                    false => rules.looks.max(1),
                };
                let level = rules.level / f64::from(looks);
                judge_test(compared, welch, common_shift_of(compared), p, (level, members))
            }
            (Method::Test, None) => without_test(compared, Verdict::Inconclusive(Doubt::NoRatio), None),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::{
        Compared, GATE_LEVEL, Rules, examples_error, gate,
        test_data::{QUIET, compared, seconds},
    };
    use crate::{Doubt, Verdict};

    #[test]
    fn five_repeats_are_significant_among_160_comparisons() {
        let slower = QUIET.map(|value| value * 1.05);
        let mut family = vec![seconds(&QUIET, &QUIET); 160];
        family[7] = seconds(&QUIET, &slower);
        family[8] = seconds(&slower, &QUIET);
        let rulings = gate(&family, Rules::default());
        assert_eq!(rulings[7].verdict, Verdict::Regressed);
        assert_eq!(rulings[8].verdict, Verdict::Improved);
        assert!(rulings[7].adjusted_p.unwrap() < GATE_LEVEL);
        let others = rulings.iter().enumerate().filter(|(at, _)| ![7, 8].contains(at));
        assert!(
            others
                .map(|(_, ruling)| ruling.verdict)
                .all(|verdict| verdict == Verdict::Unchanged)
        );
    }

    #[test]
    fn looks_divide_the_level_unless_processes_agree() {
        let looked_at = |compared: Compared<'_>, looks| {
            let rules = Rules {
                looks,
                ..Rules::default()
            };
            gate(&[compared], rules).remove(0).verdict
        };
        // A difference of 5 points on 1,000 examples: p is between a third of the level and the level.
        let accuracy = Compared {
            shared_error: examples_error(0.80, 0.75, 1_000).unwrap(),
            ..compared(MetricName::TestAccuracy, &[0.80; 5], &[0.75; 5])
        };
        let varying = Compared {
            candidate: &[0.75, 0.75, 0.75, 0.75, 0.751],
            ..accuracy
        };
        for (compared, of_three) in [
            (accuracy, Verdict::Regressed),
            (varying, Verdict::Inconclusive(Doubt::TooNoisy)),
        ] {
            assert_eq!(looked_at(compared, 1), Verdict::Regressed);
            assert_eq!(looked_at(compared, 3), of_three);
        }
    }
}
