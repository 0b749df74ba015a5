//! Intervals by resampling.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{CONFIDENCE, Estimate, Interval, Sample};

/// Resamples behind an interval: enough that the Monte-Carlo error of a 2.5 % tail is 0.35 points.
pub const RESAMPLES: usize = 2_000;

/// The percentile bootstrap interval of a statistic at [`CONFIDENCE`], from [`RESAMPLES`] resamples drawn with
/// ChaCha8 from `seed`. Absent for a single value: one sample says nothing about spread.
///
/// The statistic is given the resample in arbitrary order, may reorder it, and must return a finite number.
pub fn bootstrap_interval(
    sample: &Sample,
    seed: u64,
    mut statistic: impl FnMut(&mut [f64]) -> f64,
) -> Option<Interval> {
    let values = sample.sorted();
    if values.len() < 2 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = values.to_vec();
    let replicates = Sample::new((0..RESAMPLES).map(|_| {
        resample.fill_with(|| values[random.random_range(0..values.len())]);
        statistic(&mut resample)
    }))?;
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(Interval {
        low: replicates.quantile(tail),
        high: replicates.quantile(1.0 - tail),
    })
}

/// The median of `values` with its bootstrap interval. Absent if there is no value or one is not finite.
///
/// The interval is the percentile one and not BCa: BCa takes its acceleration from the jackknife, which is
/// inconsistent for the median (Efron and Tibshirani 1993, §11.6), and its correction would be noise here.
pub fn median_estimate(values: impl IntoIterator<Item = f64>, seed: u64) -> Option<Estimate> {
    let sample = Sample::new(values)?;
    let interval = bootstrap_interval(&sample, seed, median_in_place);
    let n = sample.sorted().len() as u64;
    Some(Estimate {
        value: sample.median(),
        interval,
        n,
        method: "median, bootstrap",
    })
}

/// The median without a full sort.
fn median_in_place(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if even {
        let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        lower + (*upper - lower) / 2.0
    } else {
        *upper
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::Rng;

    use super::*;

    fn interval(values: &[f64], seed: u64) -> Interval {
        median_estimate(values.iter().copied(), seed)
            .unwrap()
            .interval
            .unwrap()
    }

    #[test]
    fn the_interval_of_five_values_is_the_one_that_can_be_counted() {
        // The resampled median of five distinct values is the smallest with probability Σₖ₌₃ C(5,k) 0.2ᵏ 0.8⁵⁻ᵏ
        // = 0.05792, more than the tail of 0.025; the largest likewise. So the interval is the whole range.
        assert_eq!(
            interval(&[3.0, 1.0, 2.0, 5.0, 4.0], 7),
            Interval { low: 1.0, high: 5.0 }
        );
    }

    #[test]
    fn the_interval_of_eleven_values_leaves_out_the_ends() {
        // The resampled median is the second value or less with probability Σₖ₌₆ C(11,k) (2/11)ᵏ (9/11)¹¹⁻ᵏ = 0.0072,
        // less than the tail of 0.025, and the third or less with 0.0513, more than it.
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        assert_eq!(interval(&values, 7), Interval { low: 3.0, high: 9.0 });
    }

    #[test]
    fn one_value_has_no_interval_and_none_has_no_estimate() {
        let one = median_estimate([4.2], 1).unwrap();
        assert_eq!((one.value, one.interval, one.n), (4.2, None, 1));
        assert_eq!(median_estimate([], 1), None);
        assert_eq!(median_estimate([1.0, f64::NAN], 1), None);
    }

    #[test]
    fn two_values_span_their_interval() {
        assert_eq!(interval(&[2.0, 1.0], 1), Interval { low: 1.0, high: 2.0 });
    }

    #[test]
    fn equal_values_have_an_interval_without_width() {
        assert_eq!(interval(&[0.1; 6], 1), Interval { low: 0.1, high: 0.1 });
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(i).sin()).collect();
        assert_eq!(interval(&values, 3), interval(&values, 3));
        assert_ne!(interval(&values, 3), interval(&values, 4));
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_claims() {
        // 300 skewed samples of 31 from the exponential distribution, whose median is ln 2.
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let covered = (0..300)
            .filter(|&seed| {
                let draw: Vec<f64> = (0..31).map(|_| -(1.0 - random.random::<f64>()).ln()).collect();
                interval(&draw, seed).contains(std::f64::consts::LN_2)
            })
            .count();
        assert!((273..=297).contains(&covered), "{covered} of 300");
    }

    proptest! {
        #[test]
        fn the_median_lies_in_its_interval_and_the_interval_in_the_range(
            values in proptest::collection::vec(-1e6f64..1e6, 2..40), seed in any::<u64>(),
        ) {
            let estimate = median_estimate(values.iter().copied(), seed).unwrap();
            let sample = Sample::new(values).unwrap();
            let interval = estimate.interval.unwrap();
            prop_assert!(interval.contains(estimate.value));
            prop_assert!(sample.quantile(0.0) <= interval.low && interval.high <= sample.quantile(1.0));
        }

        #[test]
        fn the_median_in_place_is_the_median(values in proptest::collection::vec(-1e6f64..1e6, 1..40)) {
            let expected = Sample::new(values.iter().copied()).unwrap().median();
            prop_assert!((median_in_place(&mut values.clone()) - expected).abs() <= 1e-9);
        }
    }
}
