//! Serial dependence of samples. Confidence intervals assume that samples are independent of the time at which they were taken.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{Sample, ranks::midranks};

/// Minimum number of samples.
const FROM: usize = 10;

/// Minimum relative drift that is reported. Among a million samples, any drift is significant.
const DRIFT_FROM: f64 = 0.01;

/// Significance level of a drift. It is strict because most cells do not drift, and frequent false warnings are ignored.
const DRIFT_LEVEL: f64 = 0.001;

/// Minimum autocorrelation that is reported. At this value, the effective sample size of n samples is n/2.
const AUTOCORRELATION_FROM: f64 = 1.0 / 3.0;

/// Dependence of samples on their order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Serial {
    /// Median of the second half / median of the first half − 1. Not finite if the latter is 0.
    pub drift: f64,
    /// Two-sided p-value of Spearman's rank correlation with time.
    pub drift_p: f64,
    /// Correlation of each sample with the next; 0 if all are equal.
    pub autocorrelation: f64,
    /// Effective sample size n·(1 − r)/(1 + r), at most n. The interval is as precise as one of this many independent samples.
    pub effective_samples: f64,
}

impl Serial {
    /// Returns true if the times drift significantly by 1 % or more.
    pub fn drifts(&self) -> bool {
        // Negated so that a drift that is not finite counts.
        self.drift_p <= DRIFT_LEVEL && (self.drift.abs() >= DRIFT_FROM || !self.drift.is_finite())
    }

    /// Returns true if the autocorrelation is so high that the interval of the median is too narrow by about 30 % or more.
    pub fn depends(&self) -> bool {
        self.autocorrelation >= AUTOCORRELATION_FROM
    }
}

/// Analyses samples in the order in which they were taken. Returns `None` for fewer than ten, or if one is not finite.
pub fn serial(values: &[f64]) -> Option<Serial> {
    if values.len() < FROM {
        return None;
    }
    let median = |part: &[f64]| Sample::new(part.iter().copied()).map(|part| part.median());
    let (first, second) = values.split_at(values.len() / 2);
    let (before, after) = (median(first)?, median(second)?);
    let n = values.len() as f64;
    let autocorrelation = autocorrelation(values);
    // One outlier changes the estimate by about 1/n. The limit avoids an effective sample size of 0.
    let r = autocorrelation.clamp(0.0, 1.0 - 1.0 / n);
    Some(Serial {
        drift: after / before - 1.0,
        drift_p: trend_p(values),
        autocorrelation,
        effective_samples: n * (1.0 - r) / (1.0 + r),
    })
}

/// Computes the p-value of Spearman's correlation between values and their order, by Student's t.
fn trend_p(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (ranks, _) = midranks(values);
    let middle = (n + 1.0) / 2.0;
    let (mut together, mut squares) = (0.0, 0.0);
    for (at, rank) in ranks.iter().enumerate() {
        together += (rank - middle) * (at as f64 + 1.0 - middle);
        squares += (rank - middle).powi(2);
    }
    if squares == 0.0 {
        return 1.0;
    }
    let rho = together / (squares * n * (n * n - 1.0) / 12.0).sqrt();
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
    fn the_autocorrelation_is_the_one_worked_by_hand() {
        // The mean is 2 and the deviations are −1 1 −1 1. The sum of products is −3, the sum of squares 4.
        assert_eq!(autocorrelation(&[1.0, 3.0, 1.0, 3.0]), -0.75);
        assert_eq!(autocorrelation(&[1.0, 1.0, 3.0, 3.0]), 0.25);
        assert_eq!(autocorrelation(&[2.0; 5]), 0.0);
    }

    #[test]
    fn noise_neither_drifts_nor_depends() {
        let flagged = (0..200)
            .filter(|seed| {
                let found = serial(&noise(100, *seed)).unwrap();
                found.drifts() || found.depends()
            })
            .count();
        assert!(flagged <= 3, "{flagged} of 200");
    }

    #[test]
    fn a_clock_that_slows_down_by_five_percent_drifts() {
        let slowing: Vec<f64> = noise(100, 1)
            .iter()
            .enumerate()
            .map(|(i, value)| value * (1.0 + 0.001 * i as f64))
            .collect();
        let found = serial(&slowing).unwrap();
        assert!(found.drifts() && (0.03..0.07).contains(&found.drift), "{found:?}");
    }

    #[test]
    fn a_drift_that_is_sure_and_tiny_is_none() {
        let tiny: Vec<f64> = (0..1_000).map(|i| 1.0 + 1e-6 * f64::from(i)).collect();
        let found = serial(&tiny).unwrap();
        assert!(found.drift_p < 1e-9 && !found.drifts());
    }

    #[test]
    fn values_that_follow_each_other_count_for_less() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut value = 0.0;
        let following: Vec<f64> = (0..2_000)
            .map(|_| {
                value = 0.8 * value + random.random::<f64>() - 0.5;
                value
            })
            .collect();
        let found = serial(&following).unwrap();
        // (1 − 0.8)/(1 + 0.8) = 0.111.
        assert!(
            found.depends() && (180.0..270.0).contains(&found.effective_samples),
            "{found:?}"
        );
    }

    #[test]
    fn equal_values_show_nothing() {
        let found = serial(&[3.0; 30]).unwrap();
        assert_eq!(
            (found.drift, found.drift_p, found.effective_samples),
            (0.0, 1.0, 30.0)
        );
        assert_eq!(serial(&[3.0; 9]), None);
        assert_eq!(serial(&[f64::NAN; 30]), None);
    }
}
