//! Empirical Bayes prior on the variance within a group, such as the repeats of a cell. It is learned from all groups because the variance
//! of five values is imprecise.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::Sample;

/// Prior on a standard deviation. It is as precise as a sample standard deviation of `freedom + 1` values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Standard deviation; relative if the values are logarithms.
    pub deviation: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

impl Prior {
    /// Returns the prior for a group with sample variance `variance` and `freedom` degrees of freedom. If the group is much noisier than
    /// the others, reduces the prior's degrees of freedom, so that the group is judged by its own values (Phipson et al. 2016).
    ///
    /// The factor is min(1, `groups` · P), where P is the probability of a sample variance of at least `variance` if all true variances are
    /// equal. In that case, `groups` · P bounds the probability that the largest of `groups` sample variances is at least `variance`.
    pub fn for_group(self, variance: f64, freedom: f64, groups: usize) -> Self {
        let beyond = FisherSnedecor::new(freedom, self.freedom)
            .map_or(0.0, |law| law.sf(variance / self.deviation.powi(2)));
        Self {
            freedom: self.freedom * (beyond * groups as f64).clamp(0.0, 1.0),
            ..self
        }
    }
}

/// Minimum number of variances for a prior. With fewer, a quartile depends on a single variance.
pub const MIN_PRIOR_GROUPS: usize = 8;

/// Maximum degrees of freedom of a prior, as a multiple of those of a group. The true variances of cells differ even if their quartiles do
/// not show it.
const MAX_FREEDOM_MULTIPLE: f64 = 4.0;

/// Third quartile of the standard normal distribution.
const QUARTILE: f64 = 0.674_489_750_196_082;

/// Estimates the prior from sample variances with `freedom` degrees of freedom each (Smyth 2004, doi:10.2202/1544-6115.1027). The more the
/// variances differ beyond their sampling error, the fewer degrees of freedom the prior has.
///
/// The estimate uses the median and the quartiles of the logarithms instead of mean and variance. A few groups with a tiny variance (values
/// that happen to agree) or a huge one (interruptions) therefore hardly affect it, as in Phipson et al. 2016 (doi:10.1214/16-AOAS920).
///
/// Returns `None` for fewer than [`MIN_PRIOR_GROUPS`] variances, or if a quartile of the variances is not positive and finite.
pub fn prior(variances: &[f64], freedom: f64) -> Option<Prior> {
    if variances.len() < MIN_PRIOR_GROUPS || !(freedom > 0.0 && freedom.is_finite()) {
        return None;
    }
    // Replaces a variance of 0 by the smallest positive number. If the lower quartile is that small, there is no prior.
    let logs = Sample::new(
        variances
            .iter()
            .map(|variance| variance.max(f64::MIN_POSITIVE).ln()),
    )?;
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| logs.quantile(q));
    if low <= f64::MIN_POSITIVE.ln() / 2.0 {
        return None;
    }
    let beyond_chance = (high - low).powi(2) - quartile_range(freedom).powi(2);
    let prior_freedom = freedom_for_range(beyond_chance, MAX_FREEDOM_MULTIPLE * freedom);
    let variance = middle.exp() * median_of_chi_squared(prior_freedom) / median_of_chi_squared(freedom);
    Some(Prior {
        deviation: variance.sqrt(),
        freedom: prior_freedom,
    })
}

/// Returns the median of a χ² variable divided by its degrees of freedom (Wilson and Hilferty 1931, doi:10.1073/pnas.17.12.684).
fn median_of_chi_squared(freedom: f64) -> f64 {
    (1.0 - 2.0 / (9.0 * freedom)).powi(3)
}

/// Returns the interquartile range of the logarithm of a χ² variable, by the same approximation as [`median_of_chi_squared`].
fn quartile_range(freedom: f64) -> f64 {
    let (centre, side) = (
        1.0 - 2.0 / (9.0 * freedom),
        QUARTILE * (2.0 / (9.0 * freedom)).sqrt(),
    );
    3.0 * ((centre + side) / (centre - side)).ln()
}

/// Returns the degrees of freedom, from 1 to `max`, for which [`quartile_range`] squared is `squared_range`. The range decreases with them.
fn freedom_for_range(squared_range: f64, max: f64) -> f64 {
    let wider = |freedom: f64| quartile_range(freedom).powi(2) > squared_range;
    let (mut low, mut high) = (1.0, max.max(1.0));
    if wider(high) {
        return high;
    }
    // Fifty bisections are more than enough for the precision of `f64`.
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if wider(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{ChiSquared, Distribution};

    use super::*;

    /// Draws sample variances with 4 degrees of freedom. The true variances are 0.02²; with `freedom`, they vary around it with a scaled
    /// inverse χ² distribution.
    fn draw_variances(count: usize, freedom: Option<f64>) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let sampling = ChiSquared::new(4.0).unwrap();
        (0..count)
            .map(|_| {
                let truth = freedom.map_or(1.0, |freedom| {
                    freedom / ChiSquared::new(freedom).unwrap().sample(&mut random)
                });
                0.0004 * truth * sampling.sample(&mut random) / 4.0
            })
            .collect()
    }

    #[test]
    fn quartiles_match_scipy() {
        // chi2.ppf([0.25, 0.5, 0.75], [2, 4, 8, 16]) of SciPy 1.17.1.
        for (freedom, low, middle, high) in [
            (2.0, 0.575_364, 1.386_294, 2.772_589),
            (4.0, 1.922_558, 3.356_694, 5.385_269),
            (8.0, 5.070_640, 7.344_121, 10.218_855),
            (16.0, 11.912_220, 15.338_499, 19.368_860),
        ] {
            let range = f64::ln(high / low);
            assert!((quartile_range(freedom) / range - 1.0).abs() < 0.03, "{freedom}");
            assert!(
                (median_of_chi_squared(freedom) * freedom / middle - 1.0).abs() < 0.02,
                "{freedom}"
            );
        }
    }

    #[test]
    fn equal_deviations_give_the_maximum_freedom() {
        let found = prior(&draw_variances(4_000, None), 4.0).unwrap();
        assert!((found.deviation / 0.02 - 1.0).abs() < 0.03, "{found:?}");
        assert_eq!(found.freedom, 16.0);
    }

    #[test]
    fn true_freedom_is_recovered() {
        for freedom in [2.0, 6.0] {
            let found = prior(&draw_variances(20_000, Some(freedom)), 4.0).unwrap();
            assert!(
                (found.freedom / freedom - 1.0).abs() < 0.15,
                "{freedom}: {found:?}"
            );
            assert!(
                (found.deviation / 0.02 - 1.0).abs() < 0.05,
                "{freedom}: {found:?}"
            );
        }
    }

    #[test]
    fn few_outlying_groups_barely_change_the_prior() {
        let mut variances = draw_variances(40, None);
        let clean = prior(&variances, 4.0).unwrap();
        variances[0] = 0.0;
        variances[1] = 1e-30;
        variances[2] = 1e3;
        let found = prior(&variances, 4.0).unwrap();
        assert!(
            (found.deviation / clean.deviation - 1.0).abs() < 0.15,
            "{found:?}"
        );
        assert!(found.freedom > 4.0, "{found:?}");
    }

    #[test]
    fn much_noisier_group_gets_no_prior() {
        let prior = Prior {
            deviation: 0.02,
            freedom: 32.0,
        };
        let freedom = |deviation: f64| prior.for_group(deviation * deviation, 8.0, 20).freedom;
        // An F(8, 32) variable exceeds 1.45² with a probability of 6 %, more than 1/20, and practically never 10².
        assert_eq!([0.01, 0.02, 0.029].map(freedom), [32.0; 3]);
        assert!((0.1..10.0).contains(&freedom(0.04)), "{}", freedom(0.04));
        assert!(freedom(0.2) < 1e-6, "{}", freedom(0.2));
    }

    #[test]
    fn few_or_mostly_constant_groups_have_no_prior() {
        assert_eq!(prior(&[0.1; 7], 4.0), None);
        assert!(prior(&[0.1; 8], 4.0).is_some());
        assert_eq!(prior(&[0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1], 4.0), None);
        assert_eq!(prior(&[f64::NAN; 8], 4.0).map(|prior| prior.freedom), None);
        assert_eq!(prior(&[0.1; 8], 0.0), None);
    }
}
