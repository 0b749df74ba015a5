//! Ratios of sums over clusters of dependent members, such as the tokens of a passage.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    Interval, RESAMPLES, Sample,
    bootstrap::{bca_from_replicates, jackknife_acceleration},
    hierarchical::expanded_z,
};

/// Minimum number of clusters for an interval.
pub const MIN_CLUSTERS: usize = 10;

/// Maximum number of units that a resample draws. With more clusters, neighbouring clusters are merged into units.
const MAX_UNITS: usize = 2_000;

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

    fn plus(self, other: Self) -> Self {
        Self {
            numerator: self.numerator + other.numerator,
            denominator: self.denominator + other.denominator,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            numerator: self.numerator - other.numerator,
            denominator: self.denominator - other.denominator,
        }
    }
}

/// Computes the interval of Σ numerator / Σ denominator at [`crate::CONFIDENCE`] by resampling whole clusters with replacement,
/// [`RESAMPLES`] times with ChaCha8 from `seed`. Clusters are assumed to be independent. Returns `None` for fewer than [`MIN_CLUSTERS`],
/// for a sum that is not finite, and if all resampled ratios lie on the same side of the observed one.
///
/// The interval is BCa like [`crate::bca_interval`], with the jackknife over clusters. A bootstrap of few clusters is too narrow, so the
/// normal quantile is replaced by Student's, as in [`crate::median_over_processes`].
pub fn cluster_interval(clusters: &[Cluster], seed: u64) -> Option<Interval> {
    if clusters.len() < MIN_CLUSTERS {
        return None;
    }
    let units = merge_neighbours(clusters);
    let all = sum(units.iter().copied());
    if !all.ratio().is_finite() {
        return None;
    }
    let without: Vec<f64> = units.iter().map(|one| all.minus(*one).ratio()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let replicates = Sample::new((0..RESAMPLES).map(|_| {
        let resample = (0..units.len()).map(|_| units[random.random_range(0..units.len())]);
        sum(resample).ratio()
    }))?;
    let z = expanded_z(units.len() as f64)?;
    bca_from_replicates(&replicates, all.ratio(), jackknife_acceleration(&without), z)
}

/// Merges neighbouring clusters so that at most [`MAX_UNITS`] are left.
fn merge_neighbours(clusters: &[Cluster]) -> Vec<Cluster> {
    let neighbours = clusters.chunks(clusters.len().div_ceil(MAX_UNITS));
    neighbours.map(|some| sum(some.iter().copied())).collect()
}

fn sum(clusters: impl Iterator<Item = Cluster>) -> Cluster {
    clusters.fold(Cluster::default(), Cluster::plus)
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
    fn equal_ratios_have_a_zero_width_interval() {
        let halves = clusters((1..=20).map(|size| (f64::from(size), f64::from(2 * size))));
        let flat = Interval { low: 0.5, high: 0.5 };
        assert_eq!(cluster_interval(&halves, 1), Some(flat));
    }

    #[test]
    fn scaling_the_sums_scales_the_interval() {
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
    fn equal_sized_clusters_have_the_interval_of_the_mean() {
        // Twenty clusters of 0 and twenty of 1: the standard error of the mean is √(0.25/40) = 0.0791 (variance divided by n). With z =
        // 2.0227 · √(40/39), the interval is 0.5 ± 0.162. Means are multiples of 1/40, hence the tolerance.
        let half = clusters((0..40).map(|i| (f64::from(i % 2), 1.0)));
        let found = cluster_interval(&half, 1).unwrap();
        assert!((found.low - 0.338).abs() < 0.03, "{found:?}");
        assert!((found.high - 0.662).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn identical_members_do_not_narrow_the_interval() {
        // Two thousand tokens in forty passages, each entirely right or entirely wrong: the interval is as wide as that of forty values.
        let alone = clusters((0..40).map(|i| (f64::from(i % 2), 1.0)));
        let together = clusters((0..40).map(|i| (f64::from(i % 2) * 50.0, 50.0)));
        assert_eq!(cluster_interval(&together, 1), cluster_interval(&alone, 1));
    }

    #[test]
    fn nan_and_empty_sums_have_no_interval() {
        let mut lost = uneven();
        lost[3].numerator = f64::NAN;
        assert_eq!(cluster_interval(&lost, 1), None);
        assert_eq!(cluster_interval(&clusters([(0.0, 0.0); 12]), 1), None);
    }

    #[test]
    fn interval_depends_only_on_the_seed() {
        let interval = |seed| cluster_interval(&uneven(), seed);
        assert_eq!(interval(3), interval(3));
        assert_ne!(interval(3), interval(4));
    }

    #[test]
    fn neighbours_of_many_clusters_are_merged() {
        let many = clusters((0..2 * MAX_UNITS).map(|i| ((i % 2) as f64, 1.0)));
        assert_eq!(merge_neighbours(&many), clusters(vec![(1.0, 2.0); MAX_UNITS]));
        assert_eq!(merge_neighbours(&uneven()), uneven());
    }
}
