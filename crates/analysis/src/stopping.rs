//! Stopping rule for sampling.

use std::fmt;

use crate::{Interval, median::Ranks};

/// Minimum number of samples before the rule first computes the interval (a look). With fewer, the ends of the interval are close to the
/// smallest and largest sample, and the interval is more often narrow by chance.
pub const MIN_SAMPLES: usize = 20;

/// Growth factor of the number of samples from one look to the next. With a constant factor, looks take a constant share of the time. They
/// are also few, which leaves few chances to stop at an interval that is narrow by chance.
pub const LOOK_GROWTH: f64 = 1.5;

/// Number of consecutive looks that must find a narrow interval. If one look were enough, sampling would stop at intervals that are narrow
/// by chance, and the coverage would be 92 % instead of 95 %. With three looks, the coverage is 94 % (simulated in `docs/methodology.md`).
pub const LOOKS_IN_A_ROW: u32 = 3;

/// Parameters of the stopping rule. [`StoppingRule::new`] rejects invalid values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingRule {
    max_noise: f64,
    min_samples: usize,
    max_samples: usize,
    cap_seconds: f64,
}

/// Error of an invalid stopping rule.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StoppingRuleError {
    /// `max_noise` is not a positive share of the median.
    #[error(
        "`max_noise` must be a finite number above 0, not `{0}`\nhint: use a share of the median, such as 0.01"
    )]
    MaxNoise(f64),
    /// `min_samples` is less than [`MIN_SAMPLES`].
    #[error(
        "`min_samples` must be at least {MIN_SAMPLES}, not `{0}`\nhint: fewer samples do not give a reliable interval"
    )]
    MinSamples(usize),
    /// `max_samples` is less than `min_samples`.
    #[error("`max_samples` `{max}` is less than `min_samples` `{min}`\nhint: swap the values")]
    MinAboveMax {
        /// Minimum number of samples.
        min: usize,
        /// Maximum number of samples.
        max: usize,
    },
    /// The time cap is not positive.
    #[error("the time cap must be above 0 seconds, not `{0}`")]
    TimeCap(f64),
}

impl StoppingRule {
    /// Creates a rule that stops when [`LOOKS_IN_A_ROW`] consecutive looks find a narrow interval: the half-width of the 95 % interval of the
    /// median is at most `max_noise` times the median. The first look is at `min_samples`. The rule also stops at `max_samples`, or when the sum
    /// of the samples reaches `cap_seconds`, even before `min_samples`.
    pub fn new(
        max_noise: f64,
        min_samples: usize,
        max_samples: usize,
        cap_seconds: f64,
    ) -> Result<Self, StoppingRuleError> {
        if !(max_noise > 0.0 && max_noise.is_finite()) {
            return Err(StoppingRuleError::MaxNoise(max_noise));
        }
        if min_samples < MIN_SAMPLES {
            return Err(StoppingRuleError::MinSamples(min_samples));
        }
        if max_samples < min_samples {
            return Err(StoppingRuleError::MinAboveMax {
                min: min_samples,
                max: max_samples,
            });
        }
        if cap_seconds.is_nan() || cap_seconds <= 0.0 {
            return Err(StoppingRuleError::TimeCap(cap_seconds));
        }
        Ok(Self {
            max_noise,
            min_samples,
            max_samples,
            cap_seconds,
        })
    }
}

/// Reason for the end of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The interval of the median was narrow enough.
    NoiseReached,
    /// The maximum number of samples was reached.
    MaxSamples,
    /// The sum of the samples reached the cap.
    TimeCap,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoiseReached => "noise reached",
            Self::MaxSamples => "max samples",
            Self::TimeCap => "time cap",
        })
    }
}

/// Decision after a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Take another sample.
    Continue,
    /// Stop sampling.
    Stop(StopReason),
}

/// State of a stopping rule. Call [`push`](Self::push) with each sample.
///
/// At certain numbers of samples (looks), the rule computes [`crate::median_interval`], the interval that records contain. The first look is
/// at `min_samples`, and each further look at [`LOOK_GROWTH`] times as many samples. Sampling stops after [`LOOKS_IN_A_ROW`] consecutive looks
/// with a narrow interval. A look takes linear time in the number of samples.
#[derive(Debug, Clone)]
pub struct Stopping {
    rule: StoppingRule,
    /// Unordered: each look reorders them.
    samples: Vec<f64>,
    total_seconds: f64,
    next_look: usize,
    narrow_looks: u32,
}

impl Stopping {
    /// Starts sampling.
    pub fn new(rule: StoppingRule) -> Self {
        Self {
            rule,
            samples: Vec::new(),
            total_seconds: 0.0,
            next_look: rule.min_samples,
            narrow_looks: 0,
        }
    }

    /// Adds a sample in seconds. After a sample that is NaN, only `max_samples` can stop the sampling, because the sum of the samples is NaN, too.
    /// An infinite sample exceeds the time cap.
    pub fn push(&mut self, seconds: f64) -> Decision {
        self.samples.push(seconds);
        self.total_seconds += seconds;
        if self.samples.len() == self.next_look {
            self.look();
            if self.narrow_looks >= LOOKS_IN_A_ROW {
                return Decision::Stop(StopReason::NoiseReached);
            }
        }
        if self.samples.len() >= self.rule.max_samples {
            Decision::Stop(StopReason::MaxSamples)
        } else if self.total_seconds >= self.rule.cap_seconds {
            Decision::Stop(StopReason::TimeCap)
        } else {
            Decision::Continue
        }
    }

    fn look(&mut self) {
        self.next_look = (self.next_look as f64 * LOOK_GROWTH).ceil() as usize;
        let narrow = self.total_seconds.is_finite()
            && median_and_interval(&mut self.samples).is_some_and(|(median, interval)| {
                (interval.high - interval.low) / 2.0 <= self.rule.max_noise * median
            });
        self.narrow_looks = if narrow { self.narrow_looks + 1 } else { 0 };
    }
}

/// Computes the median and its interval. Sorts only the middle of the samples.
fn median_and_interval(samples: &mut [f64]) -> Option<(f64, Interval)> {
    let n = samples.len();
    let ranks = Ranks::new(n)?;
    let band = n - 2 * ranks.outer;
    let (_, _, above) = samples.select_nth_unstable_by(ranks.outer, f64::total_cmp);
    above.select_nth_unstable_by(band - 2, f64::total_cmp);
    let band = &mut samples[ranks.outer..n - ranks.outer];
    band.sort_unstable_by(f64::total_cmp);
    let middle = band.len() / 2;
    let median = if band.len().is_multiple_of(2) {
        f64::midpoint(band[middle - 1], band[middle])
    } else {
        band[middle]
    };
    Some((median, ranks.interval(band)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Sample, median_interval};

    fn stop(rule: StoppingRule, samples: impl IntoIterator<Item = f64>) -> (usize, Decision) {
        let mut stopping = Stopping::new(rule);
        let mut taken = 0;
        for seconds in samples {
            taken += 1;
            let decision = stopping.push(seconds);
            if decision != Decision::Continue {
                return (taken, decision);
            }
        }
        (taken, Decision::Continue)
    }

    fn rule(max_noise: f64) -> StoppingRule {
        StoppingRule::new(max_noise, 20, 1_000, 1e9).unwrap()
    }

    #[test]
    fn times_without_noise_stop_at_the_third_look() {
        let third = (45, Decision::Stop(StopReason::NoiseReached));
        assert_eq!(stop(rule(0.01), std::iter::repeat(1.0)), third);
    }

    #[test]
    fn noisy_samples_continue_up_to_max_samples() {
        let samples = (0..).map(|i| if i % 2 == 0 { 1.0 } else { 2.0 });
        assert_eq!(
            stop(rule(0.01), samples),
            (1_000, Decision::Stop(StopReason::MaxSamples))
        );
    }

    #[test]
    fn wide_interval_resets_the_count_of_narrow_looks() {
        // The interval is narrow at 20 and 30 samples, and wide at 45 because the last seventeen values are spread. It is narrow again at
        // 68, 102 and 153.
        let samples = (0..).map(|i| {
            if (28..45).contains(&i) {
                2.0 + f64::from(i)
            } else {
                1.0
            }
        });
        let mut stopping = Stopping::new(rule(0.01));
        let decisions: Vec<_> = samples.take(153).map(|seconds| stopping.push(seconds)).collect();
        assert_eq!(decisions[44], Decision::Continue);
        assert_eq!(
            decisions
                .iter()
                .position(|decision| *decision != Decision::Continue),
            Some(152)
        );
    }

    #[test]
    fn time_cap_stops_before_min_samples() {
        let rule = StoppingRule::new(0.01, 20, 1_000, 3.0).unwrap();
        assert_eq!(
            stop(rule, std::iter::repeat(1.0)),
            (3, Decision::Stop(StopReason::TimeCap))
        );
    }

    #[test]
    fn max_samples_stops_between_looks() {
        let rule = StoppingRule::new(0.01, 20, 25, 1e9).unwrap();
        assert_eq!(
            stop(rule, std::iter::repeat(1.0)),
            (25, Decision::Stop(StopReason::MaxSamples))
        );
    }

    #[test]
    fn nan_sample_never_reaches_the_noise_limit() {
        let samples = std::iter::once(f64::NAN).chain(std::iter::repeat(1.0));
        assert_eq!(
            stop(rule(0.01), samples).1,
            Decision::Stop(StopReason::MaxSamples)
        );
    }

    #[test]
    fn invalid_rules_are_rejected() {
        assert_eq!(
            StoppingRule::new(0.0, 20, 30, 1.0),
            Err(StoppingRuleError::MaxNoise(0.0))
        );
        assert!(StoppingRule::new(f64::NAN, 20, 30, 1.0).is_err());
        assert_eq!(
            StoppingRule::new(0.1, 19, 30, 1.0),
            Err(StoppingRuleError::MinSamples(19))
        );
        assert_eq!(
            StoppingRule::new(0.1, 30, 20, 1.0),
            Err(StoppingRuleError::MinAboveMax { min: 30, max: 20 })
        );
        assert_eq!(
            StoppingRule::new(0.1, 20, 30, 0.0),
            Err(StoppingRuleError::TimeCap(0.0))
        );
        assert!(StoppingRule::new(0.1, 20, 30, f64::NAN).is_err());
    }

    proptest! {
        #[test]
        fn selection_matches_the_sorted_median_and_interval(
            values in proptest::collection::vec(prop_oneof![0.0f64..10.0, (0u8..5).prop_map(f64::from)], 6..80),
        ) {
            let sample = Sample::new(values.iter().copied()).unwrap();
            let (median, interval) = median_and_interval(&mut values.clone()).unwrap();
            prop_assert!((median - sample.median()).abs() < 1e-12);
            prop_assert_eq!(Some(interval), median_interval(&sample));
        }
    }
}
