//! Bootstrap confidence intervals.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{CONFIDENCE, Interval, Sample, estimate::Z, normal};

/// Number of resamples per interval. With this number, the Monte-Carlo standard error of a tail of 2.5 % is 0.35 percentage points.
pub const RESAMPLES: usize = 2_000;

/// Computes the percentile bootstrap interval of a statistic at [`CONFIDENCE`], from [`RESAMPLES`] resamples drawn with ChaCha8 from
/// `seed`. Returns `None` for a single value, which contains no information on the spread.
///
/// `statistic` receives the resample in arbitrary order, may reorder it, and must return a finite number.
pub fn bootstrap_interval(
    sample: &Sample,
    seed: u64,
    mut statistic: impl FnMut(&mut [f64]) -> f64,
) -> Option<Interval> {
    let replicates = replicates(sample, seed, &mut statistic)?;
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(percentile_interval(&replicates, tail, 1.0 - tail))
}

/// Computes the bias-corrected and accelerated (BCa) interval of a smooth statistic at [`CONFIDENCE`] (Efron 1987,
/// doi:10.1080/01621459.1987.10478410), such as a mean, a trimmed mean or a ratio of means. The arguments are those of
/// [`bootstrap_interval`]. Returns `None` for fewer than three values, and if all resampled statistics lie on the same side of the observed
/// one.
///
/// The acceleration comes from the jackknife, which evaluates the statistic n more times. **Not for a median**: the jackknife of a median
/// is inconsistent (Efron and Tibshirani 1993, §11.6), and [`crate::median_interval`] has better coverage than any bootstrap.
pub fn bca_interval(
    sample: &Sample,
    seed: u64,
    mut statistic: impl FnMut(&mut [f64]) -> f64,
) -> Option<Interval> {
    if sample.sorted().len() < 3 {
        return None;
    }
    let value = statistic(&mut sample.sorted().to_vec());
    let acceleration = acceleration(sample.sorted(), &mut statistic);
    let replicates = replicates(sample, seed, &mut statistic)?;
    bca_from_replicates(&replicates, value, acceleration, Z)
}

/// Computes the BCa interval of `value` from the statistics of resamples. `z` is the standard normal quantile of the upper end before the
/// corrections for bias and acceleration, e.g. 1.96 for 95 %.
pub(crate) fn bca_from_replicates(
    replicates: &Sample,
    value: f64,
    acceleration: f64,
    z: f64,
) -> Option<Interval> {
    let sorted = replicates.sorted();
    let (below, not_above) = (
        sorted.partition_point(|replicate| *replicate < value),
        sorted.partition_point(|replicate| *replicate <= value),
    );
    if not_above == below && (below == 0 || below == sorted.len()) {
        return None;
    }
    // Half of the replicates that equal the value count as below it. Otherwise ties would look like bias.
    let bias = normal::quantile((below + not_above) as f64 / 2.0 / sorted.len() as f64);
    let corrected_share = |z: f64| {
        let shifted = bias + z;
        1.0 - normal::upper_tail(bias + shifted / (1.0 - acceleration * shifted))
    };
    Some(percentile_interval(
        replicates,
        corrected_share(-z),
        corrected_share(z),
    ))
}

fn acceleration(values: &[f64], statistic: &mut impl FnMut(&mut [f64]) -> f64) -> f64 {
    let without: Vec<f64> = (0..values.len())
        .map(|left_out| statistic(&mut [&values[..left_out], &values[left_out + 1..]].concat()))
        .collect();
    jackknife_acceleration(&without)
}

/// Computes the acceleration of BCa from the jackknife values `without`, each of which is the statistic of the sample without one of its
/// values. The acceleration is Σd³ / (6 · (Σd²)^1.5), where d is the mean of `without` minus one of them; 0 if all are equal.
pub(crate) fn jackknife_acceleration(without: &[f64]) -> f64 {
    let mean = without.iter().sum::<f64>() / without.len() as f64;
    let power = |exponent| -> f64 { without.iter().map(|value| (mean - value).powi(exponent)).sum() };
    let squares = power(2);
    if squares > 0.0 {
        power(3) / (6.0 * squares.powf(1.5))
    } else {
        0.0
    }
}

fn replicates(sample: &Sample, seed: u64, statistic: &mut impl FnMut(&mut [f64]) -> f64) -> Option<Sample> {
    let values = sample.sorted();
    if values.len() < 2 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = values.to_vec();
    Sample::new((0..RESAMPLES).map(|_| {
        resample.fill_with(|| values[random.random_range(0..values.len())]);
        statistic(&mut resample)
    }))
}

fn percentile_interval(replicates: &Sample, low: f64, high: f64) -> Interval {
    Interval {
        low: replicates.quantile(low),
        high: replicates.quantile(high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    fn mean(values: &mut [f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn median(values: &mut [f64]) -> f64 {
        sample(values).median()
    }

    #[test]
    fn percentile_interval_of_a_median_matches_counting() {
        // The resampled median is at most the second value with probability Σₖ₌₆ C(11,k) (2/11)ᵏ (9/11)¹¹⁻ᵏ = 0.0072, and at most the third
        // with 0.0513. The tail of 0.025 lies in between, so the interval begins at the third value.
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        let found = bootstrap_interval(&sample(&values), 7, median).unwrap();
        assert_eq!(found, Interval { low: 3.0, high: 9.0 });
    }

    #[test]
    fn single_value_has_no_interval() {
        assert_eq!(bootstrap_interval(&sample(&[4.2]), 1, mean), None);
        assert_eq!(
            bootstrap_interval(&sample(&[2.0, 1.0]), 1, median),
            Some(Interval { low: 1.0, high: 2.0 })
        );
        assert_eq!(bca_interval(&sample(&[2.0, 1.0]), 1, mean), None);
    }

    #[test]
    fn equal_values_have_a_zero_width_interval() {
        let flat = Some(Interval { low: 0.5, high: 0.5 });
        assert_eq!(bootstrap_interval(&sample(&[0.5; 6]), 1, mean), flat);
        assert_eq!(bca_interval(&sample(&[0.5; 6]), 1, mean), flat);
    }

    #[test]
    fn interval_depends_only_on_the_seed() {
        let values: Vec<f64> = (0..50).map(|i| f64::from(i).sin()).collect();
        let interval = |seed| bca_interval(&sample(&values), seed, mean);
        assert_eq!(interval(3), interval(3));
        assert_ne!(interval(3), interval(4));
    }

    #[test]
    fn acceleration_of_a_mean_matches_hand_calculation() {
        // Deviations −1, −1, 2: Σd³ = 6, Σd² = 6, and the factor 1/(n−1) of the jackknife cancels: 6/(6·6^1.5).
        assert!((acceleration(&[1.0, 1.0, 4.0], &mut mean) - 6.0f64.powf(-1.5)).abs() < 1e-12);
        assert_eq!(acceleration(&[1.0, 2.0, 3.0], &mut mean), 0.0);
    }

    #[test]
    fn bca_interval_shifts_towards_the_longer_tail() {
        let values: Vec<f64> = (0..30).map(|i| (f64::from(i) / 8.0).exp()).collect();
        let (plain, corrected) = (
            bootstrap_interval(&sample(&values), 1, mean).unwrap(),
            bca_interval(&sample(&values), 1, mean).unwrap(),
        );
        assert!(corrected.low > plain.low && corrected.high > plain.high);
    }
}
