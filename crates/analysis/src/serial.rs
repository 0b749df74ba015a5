//! Whether samples are what an interval takes them for: draws that don't depend on when they were taken.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{Sample, ranks::midranks};

/// The fewest samples that are checked.
const FROM: usize = 10;

/// A drift by less than this share is not reported, however sure it is: a million samples make any drift sure.
const DRIFT_FROM: f64 = 0.01;

/// A drift is reported if chance gives one as strong this seldom: most cells have none, and a reader who is warned in
/// vain stops reading.
const DRIFT_LEVEL: f64 = 0.001;

/// Autocorrelation from which it is reported: there, n samples are worth n/2.
const AUTOCORRELATION_FROM: f64 = 1.0 / 3.0;

/// What the order of samples shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Serial {
    /// The median of the second half over that of the first, less 1. Not finite if that of the first is 0.
    pub drift: f64,
    /// How often samples without a trend show one as strong: Spearman's rank correlation with time, two-sided.
    pub drift_p: f64,
    /// Correlation of each sample with the next; 0 if all are equal.
    pub autocorrelation: f64,
    /// Independent samples that would say as much, n·(1 − r)/(1 + r), never more than n: what the interval's n should be
    /// read as.
    pub effective_samples: f64,
}

impl Serial {
    /// Whether times moved by 1 % or more, and not by chance.
    pub fn drifts(&self) -> bool {
        // Negated so that a drift that is not finite counts.
        self.drift_p <= DRIFT_LEVEL && (self.drift.abs() >= DRIFT_FROM || !self.drift.is_finite())
    }

    /// Whether neighbours resemble each other so much that the interval of the median is too narrow by a third or more.
    pub fn depends(&self) -> bool {
        self.autocorrelation >= AUTOCORRELATION_FROM
    }
}

/// Checks samples in the order in which they were taken. Absent for fewer than ten, or if one is not finite.
pub fn serial(values: &[f64]) -> Option<Serial> {
    if values.len() < FROM {
        return None;
    }
    let median = |part: &[f64]| Sample::new(part.iter().copied()).map(|part| part.median());
    let (first, second) = values.split_at(values.len() / 2);
    let (before, after) = (median(first)?, median(second)?);
    let n = values.len() as f64;
    let autocorrelation = autocorrelation(values);
    // One outlier moves the estimate by about 1/n; a value at the edge would leave nothing.
    let r = autocorrelation.clamp(0.0, 1.0 - 1.0 / n);
    Some(Serial {
        drift: after / before - 1.0,
        drift_p: trend_p(values),
        autocorrelation,
        effective_samples: n * (1.0 - r) / (1.0 + r),
    })
}

/// Of Spearman's correlation between values and their order, by Student's t.
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
        // Mean 2, deviations −1 1 −1 1: products −3, squares 4.
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
