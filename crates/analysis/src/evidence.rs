//! What was measured of a pair of settings, or of one, as an estimate and as a test against a bound.

use crate::{
    Estimate, Interval, estimate::Z, exact_share, hodges_lehmann_ratio_within, mann_whitney_within, mcnemar,
    mean_over_seeds, normal, over_seeds::shared, paired,
};

/// The fewest seeds that signed ranks can tell apart, and the fewest equal endings that show a rule: 2/2⁶ is the first below 5 %.
pub const MIN_SEEDS: usize = 6;

/// What was measured of a pair of settings. "First" is the setting that a claim is about, "second" the one it is held against.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// A number in which there is no chance: the same in every process.
    Counted(f64),
    /// A positive quantity, one value a process, of each seed the first's and the second's: the ratio of the first to the second. Values
    /// are compared within their seed alone.
    Processes(Vec<(Vec<f64>, Vec<f64>)>),
    /// Which of the same examples were predicted right: the difference of the two shares.
    Examples {
        /// Examples that only the first got right.
        only_first: u64,
        /// Examples that only the second got right.
        only_second: u64,
        /// All examples, one or more.
        examples: u64,
    },
    /// The difference of the first to the second under each of several seeds.
    Seeds {
        /// One a seed.
        differences: Vec<Estimate>,
        /// Whether they were found on the same test examples; their intervals then say what those leave open, and without them
        /// there is no interval.
        same_examples: bool,
    },
    /// A difference with the interval that it came with. Without one nothing is known of it but its size.
    Given(Estimate),
    /// How trainings, or processes, of one setting ended: the share that ended as claimed.
    Ends {
        /// Those that did.
        as_claimed: u64,
        /// Those that ended otherwise.
        otherwise: u64,
        /// Those whose processes ended in both ways; they count against whichever is to be shown.
        torn: u64,
    },
}

impl Evidence {
    /// Whether there is too little of it for a test to tell anything, however clear it looks.
    pub(crate) fn is_too_little(&self) -> bool {
        matches!(self, Self::Seeds { differences, .. } if differences.len() < MIN_SEEDS)
    }

    /// The ratio or the difference, with its interval where there is enough for one.
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
            Self::Seeds { differences, .. } => Some(ranked(differences, 0.0)?.difference),
            Self::Given(estimate) => estimate.value.is_finite().then(|| estimate.clone()),
            Self::Ends {
                as_claimed,
                otherwise,
                torn,
            } => share(*as_claimed, *otherwise, *torn),
        }
    }

    /// How seldom chance would show as much beside a bound, two-sided; not a number where there is no chance.
    pub(crate) fn p(&self, bound: f64) -> f64 {
        let test = match self {
            Self::Counted(_) => None,
            Self::Processes(seeds) => {
                let moved: Vec<(Vec<f64>, Vec<f64>)> = seeds
                    .iter()
                    .map(|(first, second)| {
                        (first.iter().map(|value| value / bound).collect(), second.clone())
                    })
                    .collect();
                mann_whitney_within(&pairs(&moved)).map(|test| test.p)
            }
            Self::Examples {
                only_first,
                only_second,
                ..
            } if bound == 0.0 => Some(mcnemar(*only_first, *only_second)),
            Self::Examples { .. } | Self::Given(_) => {
                let interval = self.estimate().and_then(|estimate| estimate.interval);
                interval.map(|interval| by_normal_law(interval, bound))
            }
            Self::Seeds {
                differences,
                same_examples,
            } => ranked(differences, bound).map(|test| match shared(differences) {
                Some(interval) if *same_examples => test.p.max(by_normal_law(interval, bound)),
                _ => test.p,
            }),
            // Against one half, the only bound of a share: tosses of a coin.
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

/// Signed ranks of differences beside a bound.
fn ranked(differences: &[Estimate], bound: f64) -> Option<crate::Paired> {
    let moved: Vec<f64> = differences.iter().map(|one| one.value - bound).collect();
    paired(&moved, &vec![0.0; moved.len()])
}

/// The bound where the normal law of an interval puts it. An interval without a width has it beyond, unless it is there.
fn by_normal_law(Interval { low, high }: Interval, bound: f64) -> f64 {
    let distance = (bound - f64::midpoint(low, high)).abs();
    let error = (high - low) / (2.0 * Z);
    if distance == 0.0 {
        return 1.0;
    }
    (2.0 * normal::above(distance / error)).min(1.0)
}

/// The share that ended as claimed, from where it is if none of those that are torn counts to where it is if all do.
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

/// How many more would have to end as most did for their share to be told from one half, by themselves and not as one of several.
pub fn endings_missing(as_claimed: u64, otherwise: u64, torn: u64) -> u64 {
    let (more, fewer) = (as_claimed.max(otherwise), as_claimed.min(otherwise) + torn);
    let told =
        |missing: &u64| mcnemar(more + missing, fewer) <= 1.0 - crate::CONFIDENCE && more + missing > fewer;
    // Three times as many and six always tell.
    let most = 3 * fewer + MIN_SEEDS as u64;
    (0..most).find(told).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ending_takes_five_more_like_it_and_one_of_two_takes_more() {
        assert_eq!(endings_missing(1, 0, 0), 5);
        assert_eq!(endings_missing(0, 2, 0), 4);
        assert_eq!(endings_missing(6, 0, 0), 0);
        // 8 of 9: 2 · 10/512 = 0.039; 7 of 8: 2 · 9/256 = 0.07.
        assert_eq!(endings_missing(1, 1, 0), 7);
        assert_eq!(endings_missing(1, 0, 1), 7);
        assert!(endings_missing(400, 400, 0) < 1_000);
    }

    #[test]
    fn an_interval_without_a_width_lies_beyond_whatever_it_does_not_touch() {
        let at = |bound| by_normal_law(Interval { low: 0.5, high: 0.5 }, bound);
        assert_eq!((at(0.5), at(0.4)), (1.0, 0.0));
    }
}
