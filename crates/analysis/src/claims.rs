//! Tests of published claims on pairs of settings.

use mantissa_core::Bounds;

use crate::{CONFIDENCE, Estimate, Evidence, Interval, holm};

/// Result of testing a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// The interval lies within the claimed bounds.
    Confirmed,
    /// The interval lies outside the claimed bounds.
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
    /// True if the result is inconclusive only because of Holm's correction for the number of pairs.
    pub withheld: bool,
}

/// Tests a claim on pairs of settings, which form one family. If the claim is neither true nor false of any of them, the probability that
/// any pair is confirmed or refuted is at most 5 %.
///
/// Confirming or refuting a pair requires a 95 % interval that lies wholly within the bounds or wholly outside, *and* a test that rejects
/// the bound at 5 % after Holm's correction for the pairs. A pair without an interval is inconclusive, unless it was counted.
pub fn test_claim(pairs: &[Evidence], within: Bounds) -> Vec<Tested> {
    let estimates: Vec<Option<Estimate>> = pairs.iter().map(Evidence::estimate).collect();
    let (leanings, p_values): (Vec<Finding>, Vec<f64>) = pairs
        .iter()
        .zip(&estimates)
        .map(|(pair, estimate)| leaning(pair, estimate.as_ref(), within))
        .unzip();
    let level = 1.0 - CONFIDENCE;
    let adjusted = holm(&p_values);
    let tested = |at: usize, estimate| {
        let (leaning, p) = (leanings[at], p_values[at]);
        let sure = matches!(pairs[at], Evidence::Counted(_)) || adjusted[at] <= level;
        Tested {
            finding: if sure { leaning } else { Finding::Inconclusive },
            estimate,
            withheld: leaning != Finding::Inconclusive && !sure && p <= level,
        }
    };
    let estimates = estimates.into_iter().enumerate();
    estimates.map(|(at, estimate)| tested(at, estimate)).collect()
}

/// Returns the result by the interval alone, and the p-value of the bound it excludes. The p-value is NaN for a pair that is not a member
/// of the family.
fn leaning(pair: &Evidence, estimate: Option<&Estimate>, within: Bounds) -> (Finding, f64) {
    let span = match (pair, estimate) {
        (Evidence::Counted(value), Some(_)) => Some(Interval {
            low: *value,
            high: *value,
        }),
        (_, estimate) => estimate.and_then(|estimate| estimate.interval),
    };
    let Some(Interval { low, high }) = span.filter(|_| !pair.is_too_little()) else {
        return (Finding::Inconclusive, f64::NAN);
    };
    if within.hold(low, high) {
        let least_sure = within.ends().map(|bound| pair.p(bound)).reduce(f64::max);
        (Finding::Confirmed, least_sure.unwrap_or(1.0))
    } else if let Some(bound) = within.broken(low, high) {
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

    fn of(pair: Evidence, within: Bounds) -> Finding {
        test_claim(&[pair], within)[0].finding
    }

    #[test]
    fn a_ratio_whose_interval_lies_beyond_its_bound_confirms_on_one_side_and_refutes_on_the_other() {
        assert_eq!(of(times(1.5, 5), above(1.0)), Finding::Confirmed);
        assert_eq!(of(times(0.7, 5), above(1.0)), Finding::Refuted);
        assert_eq!(of(times(1.0, 5), above(1.0)), Finding::Inconclusive);
    }

    #[test]
    fn three_processes_against_three_say_nothing_however_far_apart() {
        let tested = &test_claim(&[times(9.0, 3)], above(1.0))[0];
        assert_eq!(tested.finding, Finding::Inconclusive);
        assert!(!tested.withheld && (tested.estimate.as_ref().unwrap().value - 9.0).abs() < 0.2);
        assert_eq!(of(times(9.0, 1), above(1.0)), Finding::Inconclusive);
    }

    #[test]
    fn a_ratio_between_two_bounds_must_keep_clear_of_both() {
        let half = Bounds {
            above: Some(0.4),
            below: Some(0.6),
        };
        assert_eq!(of(times(0.5, 5), half), Finding::Confirmed);
        assert_eq!(of(times(0.39, 5), half), Finding::Inconclusive);
        assert_eq!(of(times(0.2, 5), half), Finding::Refuted);
        assert_eq!(of(times(0.8, 5), half), Finding::Refuted);
    }

    #[test]
    fn what_was_counted_needs_one_process_and_equal_is_not_above() {
        assert_eq!(of(Evidence::Counted(0.5), above(0.4)), Finding::Confirmed);
        assert_eq!(of(Evidence::Counted(1.0), above(1.0)), Finding::Refuted);
        assert_eq!(of(Evidence::Counted(f64::NAN), above(1.0)), Finding::Inconclusive);
        let given = |interval| {
            Evidence::Given(Estimate {
                value: 0.5,
                interval,
                n: 1,
                method: "invented",
            })
        };
        let ends = Interval { low: 0.4, high: 0.6 };
        assert_eq!(of(given(None), above(0.0)), Finding::Inconclusive);
        assert_eq!(of(given(Some(ends)), above(0.0)), Finding::Confirmed);
    }

    #[test]
    fn more_pairs_take_more_processes() {
        // The smallest p-value of five against five is 2/252; times seven that is 0.056.
        let family = |size| test_claim(&vec![times(1.5, 5); size], above(1.0));
        assert_eq!(family(6)[0].finding, Finding::Confirmed);
        assert_eq!(family(7)[0].finding, Finding::Inconclusive);
        assert!(family(7)[0].withheld && !family(6)[0].withheld);
        // Counted values and pairs without an interval are not members of the family.
        let mut family = vec![Evidence::Counted(2.0); 9];
        family.extend([times(1.5, 5), times(1.5, 1)]);
        assert_eq!(test_claim(&family, above(1.0))[9].finding, Finding::Confirmed);
    }

    #[test]
    fn examples_are_tossed_for_and_lie_in_an_interval() {
        let examples = |only_first, only_second| Evidence::Examples {
            only_first,
            only_second,
            examples: 1_000,
        };
        assert_eq!(of(examples(40, 10), above(0.0)), Finding::Confirmed);
        assert_eq!(of(examples(10, 40), above(0.0)), Finding::Refuted);
        assert_eq!(of(examples(25, 20), above(0.0)), Finding::Inconclusive);
        let equal = Bounds {
            above: Some(-0.02),
            below: Some(0.02),
        };
        assert_eq!(
            of(examples(12, 10), equal),
            Finding::Confirmed,
            "within two points"
        );
        assert_eq!(of(examples(90, 10), equal), Finding::Refuted);
        assert_eq!(
            of(examples(0, 0), above(0.0)),
            Finding::Inconclusive,
            "no example distinguishes them"
        );
    }

    /// Returns differences of about 2 points, each with an interval of this half-width.
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
    fn six_seeds_can_tell_and_five_cannot() {
        for reach in [None, Some(0.001)] {
            assert_eq!(of(seeds(6, reach), above(0.0)), Finding::Confirmed);
            assert_eq!(of(seeds(5, reach), above(0.0)), Finding::Inconclusive);
            assert_eq!(of(seeds(6, reach), above(0.05)), Finding::Refuted);
        }
    }

    #[test]
    fn seeds_do_not_narrow_what_their_shared_examples_leave_open() {
        assert_eq!(of(seeds(12, Some(0.05)), above(0.0)), Finding::Inconclusive);
        let Evidence::Seeds { mut differences, .. } = seeds(12, Some(0.001)) else {
            unreachable!("`seeds` returns differences over seeds")
        };
        differences[3].interval = None;
        let unknown = Evidence::Seeds {
            differences,
            same_examples: true,
        };
        assert_eq!(of(unknown, above(0.0)), Finding::Inconclusive);
    }

    #[test]
    fn processes_are_compared_within_their_seed() {
        // Twice as fast under each seed, although one seed takes a hundred times as long as the other.
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
        assert_eq!(of(two, below), Finding::Confirmed, "2/400");
        let pooled = Evidence::Processes(vec![(
            [of_seed(1.0).0, of_seed(100.0).0].concat(),
            [of_seed(1.0).1, of_seed(100.0).1].concat(),
        )]);
        assert_eq!(of(pooled, below), Finding::Inconclusive);
    }

    #[test]
    fn one_training_shows_no_rule_and_six_do() {
        let ends = |as_claimed, otherwise, torn| {
            of(
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
