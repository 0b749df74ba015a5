//! Serial dependence of samples. Confidence intervals assume that samples do not depend on the time at which they were taken.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{Sample, ranks::midranks};

/// Minimum number of samples.
const MIN_VALUES: usize = 10;

/// Minimum relative drift that is reported. Among a million samples, even a negligible drift is significant.
const MIN_DRIFT: f64 = 0.01;

/// Significance level of a drift. It is strict because most cells do not drift, and readers ignore warnings that are often false.
const DRIFT_LEVEL: f64 = 0.001;

/// Minimum autocorrelation that is reported. At this value, the effective sample size of n samples is n/2.
const MIN_AUTOCORRELATION: f64 = 1.0 / 3.0;

/// Dependence of samples on their order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SerialDependence {
    /// Median of the second half of the samples / median of the first half − 1. Not finite if the median of the first half is 0.
    pub drift: f64,
    /// Two-sided p-value of Spearman's rank correlation with time.
    pub drift_p: f64,
    /// Correlation of each sample with the next one; 0 if all samples are equal.
    pub autocorrelation: f64,
    /// Effective sample size n·(1 − r)/(1 + r) for an autocorrelation r, at most n: the number of independent samples that give an equally
    /// precise interval.
    pub effective_samples: f64,
}

impl SerialDependence {
    /// Returns true if the samples drift significantly and by 1 % or more.
    pub fn drifts(&self) -> bool {
        // A drift from a median of 0 is not finite and counts as large.
        self.drift_p <= DRIFT_LEVEL && (self.drift.abs() >= MIN_DRIFT || !self.drift.is_finite())
    }

    /// Returns true if the autocorrelation makes the interval of the median too narrow by about 30 % or more.
    pub fn is_autocorrelated(&self) -> bool {
        self.autocorrelation >= MIN_AUTOCORRELATION
    }
}

/// Analyses samples in the order in which they were taken. Returns `None` for fewer than ten, or if one is not finite.
pub fn serial_dependence(values: &[f64]) -> Option<SerialDependence> {
    if values.len() < MIN_VALUES {
        return None;
    }
    let median = |part: &[f64]| Sample::new(part.iter().copied()).map(|part| part.median());
    let (first, second) = values.split_at(values.len() / 2);
    let (before, after) = (median(first)?, median(second)?);
    let n = values.len() as f64;
    let autocorrelation = autocorrelation(values);
    // The upper limit avoids an effective sample size of 0. It is 1 − 1/n because one outlier changes the autocorrelation by about 1/n.
    let r = autocorrelation.clamp(0.0, 1.0 - 1.0 / n);
    Some(SerialDependence {
        drift: after / before - 1.0,
        drift_p: trend_p(values),
        autocorrelation,
        effective_samples: n * (1.0 - r) / (1.0 + r),
    })
}

/// Computes the p-value of Spearman's correlation between values and their order, with Student's t distribution.
fn trend_p(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (ranks, _) = midranks(values);
    let mean_rank = (n + 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, rank) in ranks.iter().enumerate() {
        products += (rank - mean_rank) * (at as f64 + 1.0 - mean_rank);
        squares += (rank - mean_rank).powi(2);
    }
    if squares == 0.0 {
        return 1.0;
    }
    let rho = products / (squares * n * (n * n - 1.0) / 12.0).sqrt();
    let t = rho.abs() * ((n - 2.0) / ((1.0 - rho) * (1.0 + rho)).max(0.0)).sqrt();
    StudentsT::new(0.0, 1.0, n - 2.0).map_or(1.0, |student| (2.0 * student.sf(t)).min(1.0))
}

fn autocorrelation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| 1.0 + 0.1 * random.random::<f64>()).collect()
    }

    #[test]
    fn autocorrelation_matches_hand_calculation() {
        // The mean is 2 and the deviations are −1 1 −1 1. The sum of products is −3, the sum of squares 4.
        assert_eq!(autocorrelation(&[1.0, 3.0, 1.0, 3.0]), -0.75);
        assert_eq!(autocorrelation(&[1.0, 1.0, 3.0, 3.0]), 0.25);
        assert_eq!(autocorrelation(&[2.0; 5]), 0.0);
    }

    #[test]
    fn independent_noise_is_rarely_flagged() {
        let flagged = (0..200)
            .filter(|seed| {
                let found = serial_dependence(&noise(100, *seed)).unwrap();
                found.drifts() || found.is_autocorrelated()
            })
            .count();
        assert!(flagged <= 3, "{flagged} of 200");
    }

    #[test]
    fn gradual_slowdown_is_reported_as_drift() {
        let slowing: Vec<f64> = noise(100, 1)
            .iter()
            .enumerate()
            .map(|(i, value)| value * (1.0 + 0.001 * i as f64))
            .collect();
        let found = serial_dependence(&slowing).unwrap();
        assert!(found.drifts() && (0.03..0.07).contains(&found.drift), "{found:?}");
    }

    #[test]
    fn significant_drift_below_the_minimum_is_ignored() {
        let tiny: Vec<f64> = (0..1_000).map(|i| 1.0 + 1e-6 * f64::from(i)).collect();
        let found = serial_dependence(&tiny).unwrap();
        assert!(found.drift_p < 1e-9 && !found.drifts());
    }

    #[test]
    fn autocorrelation_reduces_the_effective_sample_size() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut value = 0.0;
        let following: Vec<f64> = (0..2_000)
            .map(|_| {
                value = 0.8 * value + random.random::<f64>() - 0.5;
                value
            })
            .collect();
        let found = serial_dependence(&following).unwrap();
        // 2,000 · (1 − 0.8)/(1 + 0.8) = 222.
        assert!(
            found.is_autocorrelated() && (180.0..270.0).contains(&found.effective_samples),
            "{found:?}"
        );
    }

    #[test]
    fn equal_values_have_no_drift_or_autocorrelation() {
        let found = serial_dependence(&[3.0; 30]).unwrap();
        assert_eq!(
            (found.drift, found.drift_p, found.effective_samples),
            (0.0, 1.0, 30.0)
        );
        assert_eq!(serial_dependence(&[3.0; 9]), None);
        assert_eq!(serial_dependence(&[f64::NAN; 30]), None);
    }
}
