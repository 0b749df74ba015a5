//! Tests of published claims on pairs of settings.

use mantissa_core::Bounds;

use crate::{CONFIDENCE, Estimate, Evidence, Interval, holm};

/// Result of testing a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// The interval lies completely within the claimed bounds.
    Confirmed,
    /// The interval lies completely outside the claimed bounds.
    Refuted,
    /// Neither confirmed nor refuted.
    Inconclusive,
}

impl Finding {
    /// Returns the name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Result of testing a claim on one pair, with its estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// The result.
    pub finding: Finding,
    /// The ratio or the difference; `None` if it does not exist, e.g. for values that are not positive.
    pub estimate: Option<Estimate>,
    /// True if the pair is significant by itself but not after Holm's correction for the number of pairs.
    pub withheld: bool,
}

/// Tests a claim on pairs of settings, with a correction for the number of pairs. If the true value of every pair equals a bound, the
/// probability that any pair is confirmed or refuted is at most 5 %.
///
/// A pair is confirmed if its 95 % interval lies completely within the bounds, and refuted if it lies completely outside. In addition, a
/// test must reject the bound at 5 % after Holm's correction for the pairs. A pair without an interval is inconclusive. Deterministic
/// values ([`Evidence::Counted`]) need neither interval nor test.
pub fn test_claim(pairs: &[Evidence], within: Bounds) -> Vec<Tested> {
    let estimates: Vec<Option<Estimate>> = pairs.iter().map(Evidence::estimate).collect();
    let (findings, p_values): (Vec<Finding>, Vec<f64>) = pairs
        .iter()
        .zip(&estimates)
        .map(|(pair, estimate)| finding_by_interval(pair, estimate.as_ref(), within))
        .unzip();
    let level = 1.0 - CONFIDENCE;
    let adjusted = holm(&p_values);
    let correct = |at: usize, estimate| {
        let (finding, p) = (findings[at], p_values[at]);
        let is_significant = matches!(pairs[at], Evidence::Counted(_)) || adjusted[at] <= level;
        Tested {
            finding: if is_significant {
                finding
            } else {
                Finding::Inconclusive
            },
            estimate,
            withheld: finding != Finding::Inconclusive && !is_significant && p <= level,
        }
    };
    let estimates = estimates.into_iter().enumerate();
    estimates.map(|(at, estimate)| correct(at, estimate)).collect()
}

/// Returns the result according to the interval alone, and its p-value for Holm's correction. To confirm the claim, the tests of all bounds
/// must reject, so the p-value is the largest of theirs. To refute it, only the test of the violated bound must reject. If the interval
/// contains a bound, the p-value is 1. Without an interval or with too few seeds, it is NaN, and the correction does not count the pair.
fn finding_by_interval(pair: &Evidence, estimate: Option<&Estimate>, within: Bounds) -> (Finding, f64) {
    let interval = match (pair, estimate) {
        (Evidence::Counted(value), Some(_)) => Some(Interval {
            low: *value,
            high: *value,
        }),
        (_, estimate) => estimate.and_then(|estimate| estimate.interval),
    };
    let Some(Interval { low, high }) = interval.filter(|_| !pair.is_insufficient()) else {
        return (Finding::Inconclusive, f64::NAN);
    };
    if within.contain(low, high) {
        let largest_p = within.ends().map(|bound| pair.p(bound)).reduce(f64::max);
        (Finding::Confirmed, largest_p.unwrap_or(1.0))
    } else if let Some(bound) = within.violated(low, high) {
        (Finding::Refuted, pair.p(bound))
    } else {
        (Finding::Inconclusive, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: [f64; 5] = [1.00, 1.01, 1.02, 0.99, 1.03];

    fn above(bound: f64) -> Bounds {
        Bounds {
            above: Some(bound),
            below: None,
        }
    }

    fn times(factor: f64, n: usize) -> Evidence {
        let first = FAST[..n].iter().map(|value| value * factor).collect();
        Evidence::Processes(vec![(first, FAST[..n].to_vec())])
    }

    fn finding(pair: Evidence, within: Bounds) -> Finding {
        test_claim(&[pair], within)[0].finding
    }

    #[test]
    fn interval_beyond_the_bound_confirms_or_refutes() {
        assert_eq!(finding(times(1.5, 5), above(1.0)), Finding::Confirmed);
        assert_eq!(finding(times(0.7, 5), above(1.0)), Finding::Refuted);
        assert_eq!(finding(times(1.0, 5), above(1.0)), Finding::Inconclusive);
    }

    #[test]
    fn three_processes_are_always_inconclusive() {
        let tested = &test_claim(&[times(9.0, 3)], above(1.0))[0];
        assert_eq!(tested.finding, Finding::Inconclusive);
        assert!(!tested.withheld && (tested.estimate.as_ref().unwrap().value - 9.0).abs() < 0.2);
        assert_eq!(finding(times(9.0, 1), above(1.0)), Finding::Inconclusive);
    }

    #[test]
    fn interval_must_lie_between_both_bounds() {
        let half = Bounds {
            above: Some(0.4),
            below: Some(0.6),
        };
        assert_eq!(finding(times(0.5, 5), half), Finding::Confirmed);
        assert_eq!(finding(times(0.39, 5), half), Finding::Inconclusive);
        assert_eq!(finding(times(0.2, 5), half), Finding::Refuted);
        assert_eq!(finding(times(0.8, 5), half), Finding::Refuted);
    }

    #[test]
    fn counted_values_need_one_process() {
        assert_eq!(finding(Evidence::Counted(0.5), above(0.4)), Finding::Confirmed);
        assert_eq!(finding(Evidence::Counted(1.0), above(1.0)), Finding::Refuted);
        assert_eq!(
            finding(Evidence::Counted(f64::NAN), above(1.0)),
            Finding::Inconclusive
        );
        let given_estimate = |interval| {
            Evidence::Given(Estimate {
                value: 0.5,
                interval,
                n: 1,
                method: "invented",
            })
        };
        let ends = Interval { low: 0.4, high: 0.6 };
        assert_eq!(finding(given_estimate(None), above(0.0)), Finding::Inconclusive);
        assert_eq!(
            finding(given_estimate(Some(ends)), above(0.0)),
            Finding::Confirmed
        );
    }

    #[test]
    fn more_pairs_need_more_processes() {
        // The smallest p-value of five against five is 2/252. Seven times that is 0.056.
        let family = |size| test_claim(&vec![times(1.5, 5); size], above(1.0));
        assert_eq!(family(6)[0].finding, Finding::Confirmed);
        assert_eq!(family(7)[0].finding, Finding::Inconclusive);
        assert!(family(7)[0].withheld && !family(6)[0].withheld);
        // The correction does not count deterministic values and pairs without an interval.
        let mut family = vec![Evidence::Counted(2.0); 9];
        family.extend([times(1.5, 5), times(1.5, 1)]);
        assert_eq!(test_claim(&family, above(1.0))[9].finding, Finding::Confirmed);
    }

    #[test]
    fn examples_are_tested_by_mcnemar_and_by_interval() {
        let examples = |only_first, only_second| Evidence::Examples {
            only_first,
            only_second,
            examples: 1_000,
        };
        assert_eq!(finding(examples(40, 10), above(0.0)), Finding::Confirmed);
        assert_eq!(finding(examples(10, 40), above(0.0)), Finding::Refuted);
        assert_eq!(finding(examples(25, 20), above(0.0)), Finding::Inconclusive);
        let equal = Bounds {
            above: Some(-0.02),
            below: Some(0.02),
        };
        assert_eq!(
            finding(examples(12, 10), equal),
            Finding::Confirmed,
            "within two points"
        );
        assert_eq!(finding(examples(90, 10), equal), Finding::Refuted);
        assert_eq!(
            finding(examples(0, 0), above(0.0)),
            Finding::Inconclusive,
            "no example distinguishes them"
        );
    }

    /// Returns differences of about 2 percentage points. `reach` is the half-width of their intervals.
    fn seeds(n: usize, reach: Option<f64>) -> Evidence {
        let difference = |seed: usize| {
            let value = 0.02 + 1e-3 * seed as f64;
            Estimate {
                value,
                interval: reach.map(|reach| Interval {
                    low: value - reach,
                    high: value + reach,
                }),
                n: 1_000,
                method: "invented",
            }
        };
        Evidence::Seeds {
            differences: (0..n).map(difference).collect(),
            same_examples: reach.is_some(),
        }
    }

    #[test]
    fn six_seeds_are_enough_and_five_are_not() {
        for reach in [None, Some(0.001)] {
            assert_eq!(finding(seeds(6, reach), above(0.0)), Finding::Confirmed);
            assert_eq!(finding(seeds(5, reach), above(0.0)), Finding::Inconclusive);
            assert_eq!(finding(seeds(6, reach), above(0.05)), Finding::Refuted);
        }
    }

    #[test]
    fn seeds_do_not_reduce_the_error_of_shared_examples() {
        assert_eq!(finding(seeds(12, Some(0.05)), above(0.0)), Finding::Inconclusive);
        let Evidence::Seeds { mut differences, .. } = seeds(12, Some(0.001)) else {
            unreachable!("`seeds` returns differences over seeds")
        };
        differences[3].interval = None;
        let unknown = Evidence::Seeds {
            differences,
            same_examples: true,
        };
        assert_eq!(finding(unknown, above(0.0)), Finding::Inconclusive);
    }

    #[test]
    fn processes_are_compared_within_their_seed() {
        // The first setting takes half the time of the second under each seed. Under one seed, both take a hundred times as long.
        let of_seed = |scale: f64| {
            (
                vec![0.5 * scale, 0.51 * scale, 0.52 * scale],
                vec![scale, 1.01 * scale, 1.02 * scale],
            )
        };
        let below = Bounds {
            above: None,
            below: Some(0.9),
        };
        let two = Evidence::Processes(vec![of_seed(1.0), of_seed(100.0)]);
        assert_eq!(
            finding(two, below),
            Finding::Confirmed,
            "p is 2/400: only 2 of the 20 × 20 assignments within the seeds are as extreme"
        );
        let pooled = Evidence::Processes(vec![(
            [of_seed(1.0).0, of_seed(100.0).0].concat(),
            [of_seed(1.0).1, of_seed(100.0).1].concat(),
        )]);
        assert_eq!(finding(pooled, below), Finding::Inconclusive);
    }

    #[test]
    fn status_claims_need_six_outcomes() {
        let ends = |as_claimed, otherwise, torn| {
            finding(
                Evidence::Ends {
                    as_claimed,
                    otherwise,
                    torn,
                },
                above(0.5),
            )
        };
        assert_eq!(
            (ends(1, 0, 0), ends(0, 1, 0)),
            (Finding::Inconclusive, Finding::Inconclusive)
        );
        assert_eq!(
            (ends(5, 0, 0), ends(6, 0, 0)),
            (Finding::Inconclusive, Finding::Confirmed)
        );
        assert_eq!(
            (ends(0, 6, 0), ends(6, 6, 0)),
            (Finding::Refuted, Finding::Inconclusive)
        );
        assert_eq!(
            (ends(6, 0, 1), ends(0, 6, 1)),
            (Finding::Inconclusive, Finding::Inconclusive)
        );
    }
}
