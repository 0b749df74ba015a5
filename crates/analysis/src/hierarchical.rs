//! Estimates over processes, the unit of replication.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Beta, Distribution};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{CONFIDENCE, Estimate, Interval, RESAMPLES, Sample, normal};

/// Maximum distance of the rank of a kept sample from the middle rank, in standard deviations of the rank of a resampled median. Fewer than
/// one resampled median in 10¹¹ lies beyond this distance.
const KEPT_DEVIATIONS: f64 = 7.0;

/// Samples of a process, reduced to those around their median. A resampled median is practically never one of the dropped samples, so the
/// estimate does not change. Of a million samples, only 7,000 are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    samples: usize,
    /// Rank of the first value that is kept.
    first: usize,
    middle: Vec<f64>,
}

impl Process {
    /// Creates a process from its samples. A quantity that a process measures once is a sample of size one.
    pub fn new(sample: &Sample) -> Self {
        let sorted = sample.sorted();
        let samples = sorted.len();
        // The rank of the median of a resample of n values has a standard deviation of √n/2. For an even n, the upper middle value of the
        // resample lies a few ranks higher, so 25 ranks are added.
        let reach = (KEPT_DEVIATIONS / 2.0 * (samples as f64).sqrt()).ceil() as usize + 25;
        let first = (samples / 2).saturating_sub(reach);
        let end = (samples / 2 + reach).min(samples);
        Self {
            samples,
            first,
            middle: sorted[first..end].to_vec(),
        }
    }

    /// Returns the median of the samples.
    pub fn median(&self) -> f64 {
        f64::midpoint(
            self.value_at_rank((self.samples - 1) / 2),
            self.value_at_rank(self.samples / 2),
        )
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.samples as u64
    }

    /// Multiplies every sample by a positive factor, e.g. to convert seconds to seconds per operation.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        self.middle.iter_mut().for_each(|value| *value *= factor);
        self
    }

    fn value_at_rank(&self, rank: usize) -> f64 {
        self.middle[rank.saturating_sub(self.first).min(self.middle.len() - 1)]
    }
}

/// Minimum number of processes for an interval. A bootstrap interval stays within the range of the values. For k processes, this range
/// contains the true median with probability 1 − 2¹⁻ᵏ: 75 % for three, 87.5 % for four, 93.75 % for five.
pub const MIN_PROCESSES: usize = 5;

/// Estimates the median over processes of the medians of their samples, with a hierarchical bootstrap interval: processes are drawn with
/// replacement, then samples within each. Returns `None` without processes. There is no interval for fewer than [`MIN_PROCESSES`]. `n` is
/// the number of processes, because even a thousand samples of one process contain no information on the next.
///
/// For a small number k of processes, the bootstrap underestimates the spread between them. The expanded percentile interval corrects this
/// (Hesterberg 2015, doi:10.1080/00031305.2015.1089789). This interval replaces the tail of 2.5 % by the normal tail above t·√(k/(k − 1)),
/// where t is the 97.5 % quantile of Student's t with k − 1 degrees of freedom.
///
/// The rank of a resampled median has a known distribution and is drawn directly. A million samples therefore cost as much as ten.
pub fn median_over_processes(processes: &[Process], seed: u64) -> Option<Estimate> {
    let medians = Sample::new(processes.iter().map(Process::median))?;
    let interval = (processes.len() >= MIN_PROCESSES)
        .then(|| interval(processes, seed))
        .flatten();
    Some(Estimate {
        value: medians.median(),
        interval,
        n: processes.len() as u64,
        method: "median over processes, hierarchical bootstrap",
    })
}

fn interval(processes: &[Process], seed: u64) -> Option<Interval> {
    let mut values = processes.iter().flat_map(|process| &process.middle);
    let first = *values.next()?;
    if values.all(|value| *value == first) {
        return Some(Interval {
            low: first,
            high: first,
        });
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let resampled: Vec<Resampled<'_>> = processes.iter().map(Resampled::new).collect::<Option<_>>()?;
    let replicates = Sample::new((0..RESAMPLES).filter_map(|_| {
        let medians = (0..processes.len()).map(|_| {
            let process = random.random_range(0..resampled.len());
            resampled[process].median(&mut random)
        });
        Sample::new(medians.collect::<Vec<_>>()).map(|medians| medians.median())
    }))?;
    let tail = expanded_tail(processes.len() as f64)?;
    Some(Interval {
        low: replicates.quantile(tail),
        high: replicates.quantile(1.0 - tail),
    })
}

/// Returns the tail of the bootstrap distribution of k units that replaces the nominal tail (1 − [`CONFIDENCE`])/2.
fn expanded_tail(k: f64) -> Option<f64> {
    Some(normal::upper_tail(expanded_z(k)?))
}

/// Returns the standard normal quantile whose upper tail is [`expanded_tail`].
pub(crate) fn expanded_z(k: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, k - 1.0).ok()?;
    let t = student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
    Some(t * (k / (k - 1.0)).sqrt())
}

/// Process with the distribution of its resampled medians.
struct Resampled<'a> {
    process: &'a Process,
    /// Distribution of the lower middle value of n uniform numbers.
    lower_middle: Beta<f64>,
}

impl<'a> Resampled<'a> {
    fn new(process: &'a Process) -> Option<Self> {
        let n = process.samples;
        let middle = n.div_ceil(2) as f64;
        let lower_middle = Beta::new(middle, n as f64 + 1.0 - middle).ok()?;
        Some(Self {
            process,
            lower_middle,
        })
    }

    /// Draws the median of a resample. The n drawn samples correspond to n uniform numbers, whose lower middle value has a Beta
    /// distribution. For an even n, the upper middle value is the smallest of the n/2 numbers above it.
    fn median(&self, random: &mut ChaCha8Rng) -> f64 {
        let n = self.process.samples;
        if n == 1 {
            return self.process.value_at_rank(0);
        }
        let lower = self.lower_middle.sample(random);
        if n.is_multiple_of(2) {
            let smallest_above = 1.0 - random.random::<f64>().powf(2.0 / n as f64);
            let upper = lower + (1.0 - lower) * smallest_above;
            f64::midpoint(self.value_at(lower), self.value_at(upper))
        } else {
            self.value_at(lower)
        }
    }

    fn value_at(&self, uniform: f64) -> f64 {
        self.process
            .value_at_rank((uniform * self.process.samples as f64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    fn process(values: &[f64]) -> Process {
        Process::new(&sample(values))
    }

    fn constants(values: &[f64]) -> Vec<Process> {
        values.iter().map(|value| process(&[*value; 9])).collect()
    }

    #[test]
    fn dropped_samples_do_not_change_the_result() {
        let whole = |shift: f64, n: usize| {
            let values = (0..n).map(|i| shift + (i as f64 / n as f64).powi(3));
            Sample::new(values).unwrap()
        };
        for n in [9_999, 10_000] {
            let samples = [0.0, 0.01, 0.03, 0.02, 0.05].map(|shift| whole(shift, n));
            let kept = samples.each_ref().map(Process::new);
            let all = samples.each_ref().map(|sample| Process {
                samples: n,
                first: 0,
                middle: sample.sorted().to_vec(),
            });
            assert!(kept.iter().all(|process| process.middle.len() < 800));
            assert!((0..5).all(|at| kept[at].median() == samples[at].median()));
            assert_eq!(median_over_processes(&kept, 3), median_over_processes(&all, 3));
        }
    }

    #[test]
    fn factor_scales_the_estimate() {
        let processes = [1.0, 2.0, 3.0, 4.0, 5.0].map(|x| process(&[x, x + 0.5, x + 2.0]));
        let (plain, twice) = (
            median_over_processes(&processes, 9).unwrap(),
            median_over_processes(&processes.map(|process| process.times(2.0)), 9).unwrap(),
        );
        assert_eq!(twice.value, 2.0 * plain.value);
        assert_eq!(twice.interval.unwrap().high, 2.0 * plain.interval.unwrap().high);
    }

    #[test]
    fn four_processes_have_an_estimate_and_no_interval() {
        let found = median_over_processes(&constants(&[4.0, 1.0, 2.0, 3.0]), 1).unwrap();
        assert_eq!((found.value, found.interval, found.n), (2.5, None, 4));
        assert_eq!(median_over_processes(&[], 1), None);
    }

    #[test]
    fn interval_of_five_processes_is_their_range() {
        // The smallest value is the median of five draws with probability 0.0579, far more than the tail of 0.00096.
        let found = median_over_processes(&constants(&[5.0, 1.0, 4.0, 2.0, 3.0]), 1).unwrap();
        assert_eq!(found.interval, Some(Interval { low: 1.0, high: 5.0 }));
    }

    #[test]
    fn equal_processes_have_a_zero_width_interval() {
        let found = median_over_processes(&constants(&[7e9; 5]), 1).unwrap();
        assert_eq!(found.interval, Some(Interval { low: 7e9, high: 7e9 }));
    }

    #[test]
    fn more_samples_per_process_do_not_narrow_the_interval() {
        let spread = |n: usize| {
            let around = |centre: f64| {
                process(
                    &(0..n)
                        .map(|i| centre + i as f64 / n as f64 / 10.0)
                        .collect::<Vec<_>>(),
                )
            };
            let found = median_over_processes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(around), 1);
            let interval = found.unwrap().interval.unwrap();
            interval.high - interval.low
        };
        assert!(
            (spread(10_000) - spread(10)).abs() < 0.2,
            "{} {}",
            spread(10),
            spread(10_000)
        );
    }

    #[test]
    fn tail_matches_hand_calculation() {
        // t₀.₉₇₅ with 4 degrees of freedom is 2.776445. Times √(5/4), it is 3.104160, with an upper normal tail of 0.000954.
        assert!((expanded_tail(5.0).unwrap() - 0.000_954).abs() < 2e-6);
        assert!((expanded_tail(1e6).unwrap() - 0.025).abs() < 1e-5);
    }

    #[test]
    fn drawn_medians_match_resampled_medians() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for n in [1, 2, 5, 8] {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * i)).collect();
            let process = process(&values);
            let resampled = Resampled::new(&process).unwrap();
            let counts = |draw: &mut dyn FnMut() -> f64| {
                (0..4_000).filter(|_| draw() <= values[values.len() / 3]).count()
            };
            let quick = counts(&mut || resampled.median(&mut random));
            let mut again = ChaCha8Rng::seed_from_u64(4);
            let slow = counts(&mut || {
                let drawn = (0..n).map(|_| values[again.random_range(0..values.len())]);
                Sample::new(drawn).unwrap().median()
            });
            // The limit is four standard deviations of the difference of two counts.
            assert!(quick.abs_diff(slow) <= 180, "{n}: {quick} {slow}");
        }
    }

    #[test]
    fn same_seed_gives_the_same_interval() {
        let processes: Vec<Process> = (0..7)
            .map(|i| process(&[f64::from(i), f64::from(i) + 0.3, f64::from(i) + 0.4]))
            .collect();
        assert_eq!(
            median_over_processes(&processes, 5),
            median_over_processes(&processes, 5)
        );
    }
}
