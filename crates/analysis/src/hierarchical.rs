//! Estimates over repeats: the process is the unit of replication.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Beta, Distribution};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{CONFIDENCE, Estimate, Interval, RESAMPLES, Sample, normal};

/// The fewest processes that an interval over processes is made from. Resampling never reaches beyond the range of
/// what the processes gave, and the range of k values covers their median with probability 1 − 2¹⁻ᵏ: 75 % for three,
/// 87.5 for four, 93.75 for five.
pub const MIN_PROCESSES: usize = 5;

/// The median over processes of the median of each process's samples, with a hierarchical bootstrap interval: processes
/// are drawn with replacement, then samples within each. Absent if there is no process; without an interval for fewer than
/// [`MIN_PROCESSES`]. `n` counts processes: a thousand samples of one process say nothing about the next one.
///
/// The bootstrap knows the spread between k processes as if k were large. Its tails are therefore widened to those
/// of Student's t with k − 1 degrees of freedom and the variance's factor k/(k − 1): the expanded percentile interval (Hesterberg
/// 2015, doi:10.1080/00031305.2015.1089789). Medians of resamples are drawn through their ranks, whose distribution
/// is known, so that a resample of a million values costs what one of ten does.
pub fn median_over_processes(processes: &[Sample], seed: u64) -> Option<Estimate> {
    let medians = Sample::new(processes.iter().map(Sample::median))?;
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

fn interval(processes: &[Sample], seed: u64) -> Option<Interval> {
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

/// The tail of the bootstrap distribution of k units that stands for a tail of (1 − [`CONFIDENCE`])/2.
fn expanded_tail(k: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, k - 1.0).ok()?;
    let t = student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
    Some(normal::above(t * (k / (k - 1.0)).sqrt()))
}

/// A sample whose resampled medians can be drawn.
struct Resampled<'a> {
    sorted: &'a [f64],
    /// Of the lower middle of n uniform numbers.
    lower_middle: Beta<f64>,
}

impl<'a> Resampled<'a> {
    fn new(sample: &'a Sample) -> Option<Self> {
        let sorted = sample.sorted();
        let n = sorted.len();
        let middle = n.div_ceil(2) as f64;
        let lower_middle = Beta::new(middle, n as f64 + 1.0 - middle).ok()?;
        Some(Self { sorted, lower_middle })
    }

    /// The median of a resample. Drawing n positions in the sample is drawing n uniform numbers, the order of positions is
    /// that of the numbers, and the lower middle of those has a Beta distribution; for an even n the upper middle is the
    /// smallest of the n/2 numbers above it.
    fn median(&self, random: &mut ChaCha8Rng) -> f64 {
        let n = self.sorted.len();
        let lower = self.lower_middle.sample(random);
        if n.is_multiple_of(2) {
            let smallest_above = 1.0 - random.random::<f64>().powf(2.0 / n as f64);
            let upper = lower + (1.0 - lower) * smallest_above;
            f64::midpoint(self.at(lower), self.at(upper))
        } else {
            self.at(lower)
        }
    }

    fn at(&self, uniform: f64) -> f64 {
        let n = self.sorted.len();
        self.sorted[((uniform * n as f64) as usize).min(n - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    fn constants(values: &[f64]) -> Vec<Sample> {
        values.iter().map(|value| sample(&[*value; 9])).collect()
    }

    #[test]
    fn four_processes_have_an_estimate_and_no_interval() {
        let found = median_over_processes(&constants(&[4.0, 1.0, 2.0, 3.0]), 1).unwrap();
        assert_eq!((found.value, found.interval, found.n), (2.5, None, 4));
        assert_eq!(median_over_processes(&[], 1), None);
    }

    #[test]
    fn five_processes_span_nearly_their_range() {
        // The smallest is the median of five draws with probability 0.0579, far more than the tail of 0.00096.
        let found = median_over_processes(&constants(&[5.0, 1.0, 4.0, 2.0, 3.0]), 1).unwrap();
        assert_eq!(found.interval, Some(Interval { low: 1.0, high: 5.0 }));
    }

    #[test]
    fn more_samples_within_processes_do_not_make_up_for_few_processes() {
        let spread = |n: usize| {
            let process = |centre: f64| {
                sample(
                    &(0..n)
                        .map(|i| centre + i as f64 / n as f64 / 10.0)
                        .collect::<Vec<_>>(),
                )
            };
            let found = median_over_processes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(process), 1);
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
    fn the_tail_is_the_one_worked_by_hand() {
        // t₀.₉₇₅ with 4 degrees of freedom is 2.776445; times √(5/4) it is 3.104160, above which lie 0.000954.
        assert!((expanded_tail(5.0).unwrap() - 0.000_954).abs() < 2e-6);
        assert!((expanded_tail(1e6).unwrap() - 0.025).abs() < 1e-5);
    }

    #[test]
    fn drawn_medians_are_distributed_as_those_of_resamples() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for n in [1, 2, 5, 8] {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * i)).collect();
            let sample = sample(&values);
            let resampled = Resampled::new(&sample).unwrap();
            let counts = |draw: &mut dyn FnMut() -> f64| {
                (0..4_000).filter(|_| draw() <= values[values.len() / 3]).count()
            };
            let quick = counts(&mut || resampled.median(&mut random));
            let mut again = ChaCha8Rng::seed_from_u64(4);
            let slow = counts(&mut || {
                let drawn = (0..n).map(|_| values[again.random_range(0..values.len())]);
                Sample::new(drawn).unwrap().median()
            });
            // Four standard deviations of the difference of two counts.
            assert!(quick.abs_diff(slow) <= 180, "{n}: {quick} {slow}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let processes: Vec<Sample> = (0..7)
            .map(|i| sample(&[f64::from(i), f64::from(i) + 0.3, f64::from(i) + 0.4]))
            .collect();
        assert_eq!(
            median_over_processes(&processes, 5),
            median_over_processes(&processes, 5)
        );
    }
}
