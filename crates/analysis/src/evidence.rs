//! Measurements of one or two settings, as an estimate and as a test against a bound.

use crate::{
    Estimate, Interval, estimate::Z, exact_share, hodges_lehmann_ratio_within, mann_whitney_within, mcnemar,
    mean_over_seeds, normal, over_seeds::mean_interval, paired,
};

/// Minimum number of seeds for a significant signed-rank test, and of equal outcomes for a significant sign test. The smallest two-sided
/// p-value for n seeds or outcomes is 2/2ⁿ, which is below 5 % from n = 6 on.
pub const MIN_SEEDS: usize = 6;

/// Measurements of a pair of settings. A claim is about the "first" setting and compares it with the "second".
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Deterministic number, equal in every process.
    Counted(f64),
    /// Values of a positive quantity, one per process: for each seed, those of the first and those of the second. The estimate is the ratio
    /// first / second. Values are compared only within their seed.
    Processes(Vec<(Vec<f64>, Vec<f64>)>),
    /// Numbers of correct predictions on the same examples. The estimate is the difference of the two accuracies.
    Examples {
        /// Examples that only the first predicts correctly.
        only_first: u64,
        /// Examples that only the second predicts correctly.
        only_second: u64,
        /// Number of all examples, at least one.
        examples: u64,
    },
    /// Difference first − second under each of several seeds.
    Seeds {
        /// One difference per seed.
        differences: Vec<Estimate>,
        /// True if all differences come from the same test examples. The interval of each difference must then contain the sampling error
        /// of these examples. If one interval is missing, the mean does not have an interval.
        same_examples: bool,
    },
    /// Difference with a given interval. Without an interval, the result is inconclusive.
    Given(Estimate),
    /// Outcomes of trainings or processes of one setting. The estimate is the share with the claimed outcome.
    Ends {
        /// Number with the claimed outcome.
        as_claimed: u64,
        /// Number with another outcome.
        otherwise: u64,
        /// Number of trainings in which some processes have the claimed outcome and others do not. The test adds these trainings to the
        /// rarer outcome.
        torn: u64,
    },
}

impl Evidence {
    /// Returns true for differences over fewer than [`MIN_SEEDS`] seeds, which cannot be significant.
    pub(crate) fn is_insufficient(&self) -> bool {
        matches!(self, Self::Seeds { differences, .. } if differences.len() < MIN_SEEDS)
    }

    /// Estimates the ratio, difference or share, with an interval if there is enough data.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        match self {
            Self::Counted(value) => value.is_finite().then_some(Estimate {
                value: *value,
                interval: None,
                n: 1,
                method: "counted",
            }),
            Self::Processes(seeds) => hodges_lehmann_ratio_within(&pairs(seeds)),
            Self::Examples {
                only_first,
                only_second,
                examples,
            } => (*examples > 0).then(|| mcnemar::accuracy_difference(*only_first, *only_second, *examples)),
            Self::Seeds {
                differences,
                same_examples: true,
            } => mean_over_seeds(differences),
            Self::Seeds { differences, .. } => Some(signed_rank_against(differences, 0.0)?.difference),
            Self::Given(estimate) => estimate.value.is_finite().then(|| estimate.clone()),
            Self::Ends {
                as_claimed,
                otherwise,
                torn,
            } => share(*as_claimed, *otherwise, *torn),
        }
    }

    /// Computes the two-sided p-value of the hypothesis that the true value equals `bound`; NaN without a test, e.g. for deterministic
    /// numbers.
    pub(crate) fn p(&self, bound: f64) -> f64 {
        let test = match self {
            Self::Counted(_) => None,
            Self::Processes(seeds) => {
                let scaled: Vec<(Vec<f64>, Vec<f64>)> = seeds
                    .iter()
                    .map(|(first, second)| {
                        (first.iter().map(|value| value / bound).collect(), second.clone())
                    })
                    .collect();
                mann_whitney_within(&pairs(&scaled)).map(|test| test.p)
            }
            Self::Examples {
                only_first,
                only_second,
                ..
            } if bound == 0.0 => Some(mcnemar(*only_first, *only_second)),
            Self::Examples { .. } | Self::Given(_) => {
                let interval = self.estimate().and_then(|estimate| estimate.interval);
                interval.map(|interval| normal_p_value(interval, bound))
            }
            Self::Seeds {
                differences,
                same_examples,
            } => signed_rank_against(differences, bound).map(|test| match mean_interval(differences) {
                Some(interval) if *same_examples => test.p.max(normal_p_value(interval, bound)),
                _ => test.p,
            }),
            // The only bound of a share is one half, so this is a sign test.
            Self::Ends {
                as_claimed,
                otherwise,
                torn,
            } => Some(if as_claimed > otherwise {
                mcnemar(*as_claimed, otherwise + torn)
            } else {
                mcnemar(as_claimed + torn, *otherwise)
            }),
        };
        test.unwrap_or(f64::NAN)
    }
}

fn pairs(seeds: &[(Vec<f64>, Vec<f64>)]) -> Vec<(&[f64], &[f64])> {
    let both = seeds.iter();
    both.map(|(first, second)| (first.as_slice(), second.as_slice()))
        .collect()
}

/// Computes the signed-rank test of the hypothesis that the differences are symmetric around `bound`.
fn signed_rank_against(differences: &[Estimate], bound: f64) -> Option<crate::Paired> {
    let shifted: Vec<f64> = differences.iter().map(|one| one.value - bound).collect();
    paired(&shifted, &vec![0.0; shifted.len()])
}

/// Computes the two-sided p-value of `bound` under the normal distribution whose 95 % interval is given. If the interval is a single point,
/// the p-value is 1 for a `bound` at that point, otherwise 0.
fn normal_p_value(Interval { low, high }: Interval, bound: f64) -> f64 {
    let distance = (bound - f64::midpoint(low, high)).abs();
    let error = (high - low) / (2.0 * Z);
    if distance == 0.0 {
        return 1.0;
    }
    (2.0 * normal::upper_tail(distance / error)).min(1.0)
}

/// Estimates the share with the claimed outcome. Torn trainings count as claimed only for the upper end of the interval.
fn share(as_claimed: u64, otherwise: u64, torn: u64) -> Option<Estimate> {
    let n = as_claimed + otherwise + torn;
    let (least, most) = (exact_share(as_claimed, n)?, exact_share(as_claimed + torn, n)?);
    Some(Estimate {
        value: least.value,
        interval: least.interval.zip(most.interval).map(|(least, most)| Interval {
            low: least.low,
            high: most.high,
        }),
        ..least
    })
}

/// Returns the number of additional outcomes that make the sign test significant, if all of them equal the majority. Ignores Holm's
/// correction.
pub fn endings_missing(as_claimed: u64, otherwise: u64, torn: u64) -> u64 {
    let (more, fewer) = (as_claimed.max(otherwise), as_claimed.min(otherwise) + torn);
    let significant =
        |missing: &u64| mcnemar(more + missing, fewer) <= 1.0 - crate::CONFIDENCE && more + missing > fewer;
    // `most` additional outcomes are always enough.
    let most = 3 * fewer + MIN_SEEDS as u64;
    (0..most).find(significant).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_outcomes_match_the_sign_test() {
        assert_eq!(endings_missing(1, 0, 0), 5);
        assert_eq!(endings_missing(0, 2, 0), 4);
        assert_eq!(endings_missing(6, 0, 0), 0);
        // Two-sided p-values: 8 of 9: 2 · 10/512 = 0.039; 7 of 8: 2 · 9/256 = 0.07.
        assert_eq!(endings_missing(1, 1, 0), 7);
        assert_eq!(endings_missing(1, 0, 1), 7);
        assert!(endings_missing(400, 400, 0) < 1_000);
    }

    #[test]
    fn zero_width_interval_has_a_p_value_of_0_or_1() {
        let at = |bound| normal_p_value(Interval { low: 0.5, high: 0.5 }, bound);
        assert_eq!((at(0.5), at(0.4)), (1.0, 0.0));
    }
}
