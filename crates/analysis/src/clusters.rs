//! Ratios of sums over clusters of dependent members, such as the tokens of a passage.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    Interval, RESAMPLES, Sample,
    bootstrap::{acceleration_of, corrected},
    hierarchical::expanded_z,
};

/// Minimum number of clusters for an interval.
pub const MIN_CLUSTERS: usize = 10;

/// Maximum number of units that a resample draws. If there are more clusters, neighbours are merged.
const MOST_DRAWN: usize = 2_000;

/// Contribution of a cluster to the two sums of a ratio.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cluster {
    /// Contribution to the numerator: hits or losses.
    pub numerator: f64,
    /// Contribution to the denominator: the number of members. Not negative.
    pub denominator: f64,
}

impl Cluster {
    fn ratio(self) -> f64 {
        self.numerator / self.denominator
    }

    fn and(self, other: Self) -> Self {
        Self {
            numerator: self.numerator + other.numerator,
            denominator: self.denominator + other.denominator,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            numerator: self.numerator - other.numerator,
            denominator: self.denominator - other.denominator,
        }
    }
}

/// Computes the interval of Σ numerator / Σ denominator at [`crate::CONFIDENCE`]. The cluster is the unit of replication: whole clusters
/// are drawn with replacement, [`RESAMPLES`] times with ChaCha8 from `seed`, and assumed to be independent. Returns `None` for fewer than
/// [`MIN_CLUSTERS`], for a sum that is not finite, and if no resample or every one lies below the ratio.
///
/// The interval is BCa like [`crate::bca_interval`], with the jackknife over clusters. Its quantile is Student's, as in
/// [`crate::median_over_processes`], because a bootstrap of few clusters is too narrow.
pub fn cluster_interval(clusters: &[Cluster], seed: u64) -> Option<Interval> {
    if clusters.len() < MIN_CLUSTERS {
        return None;
    }
    let drawn = joined(clusters);
    let all = sum(drawn.iter().copied());
    if !all.ratio().is_finite() {
        return None;
    }
    let without: Vec<f64> = drawn.iter().map(|one| all.without(*one).ratio()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let replicates = Sample::new((0..RESAMPLES).map(|_| {
        let resample = (0..drawn.len()).map(|_| drawn[random.random_range(0..drawn.len())]);
        sum(resample).ratio()
    }))?;
    let z = expanded_z(drawn.len() as f64)?;
    corrected(&replicates, all.ratio(), acceleration_of(&without), z)
}

/// Merges neighbours until there are at most [`MOST_DRAWN`].
fn joined(clusters: &[Cluster]) -> Vec<Cluster> {
    let neighbours = clusters.chunks(clusters.len().div_ceil(MOST_DRAWN));
    neighbours.map(|some| sum(some.iter().copied())).collect()
}

fn sum(clusters: impl Iterator<Item = Cluster>) -> Cluster {
    clusters.fold(Cluster::default(), Cluster::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(pairs: impl IntoIterator<Item = (f64, f64)>) -> Vec<Cluster> {
        let cluster = |(numerator, denominator)| Cluster {
            numerator,
            denominator,
        };
        pairs.into_iter().map(cluster).collect()
    }

    /// Returns forty clusters of different sizes, with ratios from a third to two thirds.
    fn uneven() -> Vec<Cluster> {
        clusters((0..40).map(|i| {
            let size = f64::from(6 + 3 * (i % 5));
            (size * f64::from(5 + i * 7 % 6) / 15.0, size)
        }))
    }

    #[test]
    fn few_clusters_have_no_interval() {
        assert!(cluster_interval(&uneven()[..MIN_CLUSTERS - 1], 1).is_none());
        assert!(cluster_interval(&uneven()[..MIN_CLUSTERS], 1).is_some());
        assert_eq!(cluster_interval(&[], 1), None);
    }

    #[test]
    fn clusters_of_one_ratio_have_an_interval_without_width() {
        let halves = clusters((1..=20).map(|size| (f64::from(size), f64::from(2 * size))));
        let flat = Interval { low: 0.5, high: 0.5 };
        assert_eq!(cluster_interval(&halves, 1), Some(flat));
    }

    #[test]
    fn the_unit_of_either_sum_scales_the_interval() {
        let plain = cluster_interval(&uneven(), 1).unwrap();
        let scaled = |up: f64, down: f64| {
            let all = uneven().into_iter();
            clusters(all.map(|one| (one.numerator * up, one.denominator * down)))
        };
        let found = cluster_interval(&scaled(8.0, 2.0), 1).unwrap();
        assert!((found.low / plain.low - 4.0).abs() < 1e-9);
        assert!((found.high / plain.high - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_of_clusters_of_one_size_is_that_of_the_mean() {
        // Twenty clusters of 0 and twenty of 1: the mean has a standard error of 1/√160 = 0.0791 without the correction of the variance,
        // and z = 2.0227 · √(40/39), so the interval is 0.5 ± 0.162, up to one step of the mean, 1/40.
        let half = clusters((0..40).map(|i| (f64::from(i % 2), 1.0)));
        let found = cluster_interval(&half, 1).unwrap();
        assert!((found.low - 0.338).abs() < 0.03, "{found:?}");
        assert!((found.high - 0.662).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn members_that_are_alike_are_worth_one() {
        // Two thousand tokens in forty passages, each entirely right or entirely wrong: the interval is as wide as that of forty values.
        let alone = clusters((0..40).map(|i| (f64::from(i % 2), 1.0)));
        let together = clusters((0..40).map(|i| (f64::from(i % 2) * 50.0, 50.0)));
        assert_eq!(cluster_interval(&together, 1), cluster_interval(&alone, 1));
    }

    #[test]
    fn sums_that_are_not_finite_or_of_nothing_have_no_interval() {
        let mut lost = uneven();
        lost[3].numerator = f64::NAN;
        assert_eq!(cluster_interval(&lost, 1), None);
        assert_eq!(cluster_interval(&clusters([(0.0, 0.0); 12]), 1), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let interval = |seed| cluster_interval(&uneven(), seed);
        assert_eq!(interval(3), interval(3));
        assert_ne!(interval(3), interval(4));
    }

    #[test]
    fn of_very_many_clusters_neighbours_are_drawn_together() {
        let many = clusters((0..2 * MOST_DRAWN).map(|i| ((i % 2) as f64, 1.0)));
        assert_eq!(joined(&many), clusters(vec![(1.0, 2.0); MOST_DRAWN]));
        assert_eq!(joined(&uneven()), uneven());
    }
}
