//! Verdicts on a candidate compared with a baseline.

use std::fmt;

use mantissa_core::Better;

use crate::{CONFIDENCE, Estimate, Interval, hodges_lehmann_ratio, holm, mann_whitney, smallest_p};

/// One comparison: the values of a metric on both sides, one per process, and the threshold.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// The baseline's values, one per process. Must be positive.
    pub baseline: &'a [f64],
    /// The candidate's values.
    pub candidate: &'a [f64],
    /// Direction of improvement.
    pub better: Better,
    /// Smallest relevant change of the ratio, positive: 0.02 is a factor of 1.02 or its inverse.
    pub threshold: f64,
}

/// Verdict on a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Significantly better, and by more than the threshold.
    Improved,
    /// Significantly worse, and by more than the threshold.
    Regressed,
    /// Shown to be equivalent: the whole confidence interval of the ratio lies within the threshold.
    Unchanged,
    /// The data do not support a verdict.
    Inconclusive(Doubt),
}

/// Reason for an inconclusive verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// With this number of repeats, no change can be significant among this number of comparisons.
    TooFewRepeats,
    /// The repeats vary too much, or the change is too close to the threshold.
    TooNoisy,
    /// All cells changed alike, and the runs were not interleaved. The cause of the shift can be the machine or the program.
    Shared,
    /// A value or the threshold is not positive and finite, so there is no ratio.
    NoRatio,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Improved => "improved",
            Self::Regressed => "regressed",
            Self::Unchanged => "unchanged",
            Self::Inconclusive(_) => "inconclusive",
        })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooFewRepeats => "too few repeats",
            Self::TooNoisy => "too noisy",
            Self::Shared => "all cells changed alike, and the runs were not interleaved",
            Self::NoRatio => "no ratio",
        })
    }
}

/// Verdict on one comparison, with its estimate and p-value.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Ratio candidate / baseline (Hodges–Lehmann); `None` if it does not exist.
    pub ratio: Option<Estimate>,
    /// p-value of the Mann–Whitney test over processes, adjusted for all comparisons of the family (Holm); `None` if significance is
    /// impossible with this number of repeats.
    pub adjusted_p: Option<f64>,
}

/// Judges a family of comparisons, such as one table of a report. If nothing changed, at most 5 % of all families contain a false
/// improvement or regression. The gate uses [`crate::gate`] instead.
///
/// *Improved* and *regressed* require an adjusted p-value of at most 5 % *and* a ratio beyond the threshold. *Unchanged* requires a
/// confidence interval within the threshold. Everything else is inconclusive.
///
/// Among m comparisons, the repeats must allow a p-value of 0.05/m: five repeats on each side are enough for up to six comparisons, see
/// [`smallest_p`].
pub fn judge(family: &[Groups<'_>]) -> Vec<Judgement> {
    let ratios: Vec<Option<Estimate>> = family.iter().map(ratio).collect();
    // Comparisons without a ratio do not count for the correction, because they are never improved or regressed.
    let members = ratios.iter().flatten().count() as f64;
    let p_values: Vec<f64> = family
        .iter()
        .zip(&ratios)
        .map(|(groups, ratio)| match ratio {
            Some(_) => mann_whitney(groups.candidate, groups.baseline).map_or(f64::NAN, |test| test.p),
            None => f64::NAN,
        })
        .collect();
    let adjusted = holm(&p_values);
    family
        .iter()
        .zip(ratios)
        .zip(adjusted)
        .map(|((groups, ratio), p)| judgement(groups, ratio, p, members))
        .collect()
}

fn ratio(groups: &Groups<'_>) -> Option<Estimate> {
    let is_valid = groups.threshold > 0.0 && groups.threshold.is_finite();
    hodges_lehmann_ratio(groups.candidate, groups.baseline).filter(|_| is_valid)
}

fn judgement(groups: &Groups<'_>, ratio: Option<Estimate>, adjusted_p: f64, members: f64) -> Judgement {
    let inconclusive = |doubt, ratio| Judgement {
        verdict: Verdict::Inconclusive(doubt),
        ratio,
        adjusted_p: None,
    };
    let Some(estimate) = ratio else {
        return inconclusive(Doubt::NoRatio, None);
    };
    let level = 1.0 - CONFIDENCE;
    let attainable = smallest_p(groups.baseline.len(), groups.candidate.len()) * members <= level;
    let within = |interval: Interval| {
        let limit = 1.0 + groups.threshold;
        1.0 / limit <= interval.low && interval.high <= limit
    };
    let same = estimate.interval.is_some_and(within);
    if !attainable && !same {
        return inconclusive(Doubt::TooFewRepeats, Some(estimate));
    }
    let beyond = estimate.value.ln().abs() > groups.threshold.ln_1p();
    let larger_is_better = groups.better == Better::Higher;
    let verdict = if same {
        Verdict::Unchanged
    } else if adjusted_p > level || !beyond {
        Verdict::Inconclusive(Doubt::TooNoisy)
    } else if (estimate.value > 1.0) == larger_is_better {
        Verdict::Improved
    } else {
        Verdict::Regressed
    };
    Judgement {
        verdict,
        ratio: Some(estimate),
        adjusted_p: attainable.then_some(adjusted_p),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: [f64; 5] = [1.20, 1.21, 1.22, 1.19, 1.23];
    const FAST: [f64; 5] = [1.00, 1.01, 1.02, 0.99, 1.03];

    fn seconds<'a>(baseline: &'a [f64], candidate: &'a [f64]) -> Groups<'a> {
        Groups {
            baseline,
            candidate,
            better: Better::Lower,
            threshold: 0.05,
        }
    }

    fn verdict(groups: Groups<'_>) -> Verdict {
        judge(&[groups])[0].verdict
    }

    #[test]
    fn longer_times_regress_and_shorter_times_improve() {
        assert_eq!(verdict(seconds(&FAST, &SLOW)), Verdict::Regressed);
        assert_eq!(verdict(seconds(&SLOW, &FAST)), Verdict::Improved);
    }

    #[test]
    fn higher_is_better_inverts_the_verdict() {
        let rate = Groups {
            better: Better::Higher,
            ..seconds(&FAST, &SLOW)
        };
        assert_eq!(verdict(rate), Verdict::Improved);
    }

    #[test]
    fn three_repeats_are_always_inconclusive() {
        let judged = &judge(&[seconds(&[1.0, 1.0, 1.1], &[9.0, 9.1, 9.2])])[0];
        assert_eq!(judged.verdict, Verdict::Inconclusive(Doubt::TooFewRepeats));
        assert_eq!(
            judged.adjusted_p, None,
            "three against three cannot reach a small p-value"
        );
        assert_eq!(judged.ratio.as_ref().unwrap().interval, None);
    }

    #[test]
    fn larger_families_need_more_repeats() {
        // The smallest p-value of five against five is 2/252. Times 6 it is 0.048, and times 7 it is 0.056.
        let family = |size| judge(&vec![seconds(&FAST, &SLOW); size])[0].verdict;
        assert_eq!(family(6), Verdict::Regressed);
        assert_eq!(family(7), Verdict::Inconclusive(Doubt::TooFewRepeats));
    }

    #[test]
    fn significant_change_below_the_threshold_is_unchanged() {
        let shifted = FAST.map(|value| value * 1.001);
        assert_eq!(verdict(seconds(&FAST, &shifted)), Verdict::Unchanged);
        let sure = [1.0001, 1.0002, 1.0003, 1.0004, 1.0005];
        let judged = &judge(&[seconds(&[1.0; 5], &sure)])[0];
        assert_eq!(judged.verdict, Verdict::Unchanged);
        assert!(judged.adjusted_p.unwrap() < 0.01);
    }

    #[test]
    fn noisy_repeats_are_inconclusive() {
        let noisy = [0.8, 1.3, 1.0, 0.7, 1.5];
        assert_eq!(
            verdict(seconds(&FAST, &noisy)),
            Verdict::Inconclusive(Doubt::TooNoisy)
        );
    }

    #[test]
    fn change_near_the_threshold_is_inconclusive() {
        let near = FAST.map(|value| value * 1.045);
        assert_eq!(
            verdict(seconds(&FAST, &near)),
            Verdict::Inconclusive(Doubt::TooNoisy)
        );
    }

    #[test]
    fn constant_bytes_are_judged() {
        assert_eq!(verdict(seconds(&[7e9; 5], &[7e9; 5])), Verdict::Unchanged);
        assert_eq!(verdict(seconds(&[7e9; 5], &[8e9; 5])), Verdict::Regressed);
        assert_eq!(
            verdict(seconds(&[7e9], &[8e9])),
            Verdict::Inconclusive(Doubt::TooFewRepeats)
        );
    }

    #[test]
    fn invalid_values_are_inconclusive_and_not_in_the_family() {
        let none = seconds(&[0.0, 1.0], &[1.0]);
        let family: Vec<_> = [none; 9].into_iter().chain([seconds(&FAST, &SLOW)]).collect();
        let judged = judge(&family);
        assert_eq!(judged[0].verdict, Verdict::Inconclusive(Doubt::NoRatio));
        assert_eq!(judged[9].verdict, Verdict::Regressed);
        let invalid = Groups {
            threshold: f64::NAN,
            ..seconds(&FAST, &SLOW)
        };
        assert_eq!(verdict(invalid), Verdict::Inconclusive(Doubt::NoRatio));
    }
}
