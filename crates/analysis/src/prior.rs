//! What groups of repeats deviate by, learned from all groups of a family: five values know little of it.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::Sample;

/// A deviation and how much it is worth: as much as one from `freedom + 1` values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// The deviation; of logarithms a relative one.
    pub deviation: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
}

impl Prior {
    /// What it is worth to one of `kin` groups, whose own variance is this, with so many degrees of freedom: less, the less likely it is
    /// that the largest of that many which are alike is as large (Phipson et al. 2016). A group far noisier than its kin is left
    /// with its own few values.
    pub fn for_one(self, variance: f64, freedom: f64, kin: usize) -> Self {
        let beyond = FisherSnedecor::new(freedom, self.freedom)
            .map_or(0.0, |law| law.sf(variance / self.deviation.powi(2)));
        Self {
            freedom: self.freedom * (beyond * kin as f64).clamp(0.0, 1.0),
            ..self
        }
    }
}

/// The fewest variances that a prior is learned from: a quartile of fewer is one of them.
pub const MIN_KIN: usize = 8;

/// The most that kin may count, as a multiple of what a group's own values do: cells do differ, though quartiles of a few
/// cannot always show it.
const MOST_OF_KIN: f64 = 4.0;

/// The standard normal quantile at 3/4.
const QUARTILE: f64 = 0.674_489_750_196_082;

/// The prior of variances that have `freedom` degrees of freedom each, as in Smyth 2004 (doi:10.2202/1544-6115.1027), by the
/// median and the quartiles of their logarithms in place of mean and variance, so that a few groups whose values happen to agree, or that
/// an interruption hit, do not decide it (Phipson et al. 2016, doi:10.1214/16-AOAS920).
///
/// The less alike the variances are, beyond what so few values make of equal ones, the less the prior counts. Absent for fewer than
/// [`MIN_KIN`] variances, and if the middle half is not positive and finite.
pub fn prior(variances: &[f64], freedom: f64) -> Option<Prior> {
    if variances.len() < MIN_KIN || !(freedom > 0.0 && freedom.is_finite()) {
        return None;
    }
    // A variance of 0 has a logarithm below all others; where it is among the middle half there is no prior.
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
    let kin = freedom_of(beyond_chance, MOST_OF_KIN * freedom);
    let variance = middle.exp() * median(kin) / median(freedom);
    Some(Prior {
        deviation: variance.sqrt(),
        freedom: kin,
    })
}

/// The median of χ² with so many degrees of freedom, over them (Wilson and Hilferty 1931, doi:10.1073/pnas.17.12.684).
fn median(freedom: f64) -> f64 {
    (1.0 - 2.0 / (9.0 * freedom)).powi(3)
}

/// The distance between the quartiles of the logarithm of χ², by the same.
fn quartile_range(freedom: f64) -> f64 {
    let (centre, side) = (
        1.0 - 2.0 / (9.0 * freedom),
        QUARTILE * (2.0 / (9.0 * freedom)).sqrt(),
    );
    3.0 * ((centre + side) / (centre - side)).ln()
}

/// The degrees of freedom, from 1 to `most`, whose squared distance between quartiles this is. More of them are closer together.
fn freedom_of(squared_range: f64, most: f64) -> f64 {
    let wider = |freedom: f64| quartile_range(freedom).powi(2) > squared_range;
    let (mut low, mut high) = (1.0, most.max(1.0));
    if wider(high) {
        return high;
    }
    // Fifty halvings leave nothing of any such range.
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

    /// Variances with 4 degrees of freedom around some that scatter as an inverse χ² around 0.02².
    fn drawn(count: usize, kin: Option<f64>) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let own = ChiSquared::new(4.0).unwrap();
        (0..count)
            .map(|_| {
                let truth = kin.map_or(1.0, |kin| kin / ChiSquared::new(kin).unwrap().sample(&mut random));
                0.0004 * truth * own.sample(&mut random) / 4.0
            })
            .collect()
    }

    #[test]
    fn the_quartiles_are_nearly_scipys() {
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
                (median(freedom) * freedom / middle - 1.0).abs() < 0.02,
                "{freedom}"
            );
        }
    }

    #[test]
    fn equal_deviations_make_a_prior_that_counts_most() {
        let found = prior(&drawn(4_000, None), 4.0).unwrap();
        assert!((found.deviation / 0.02 - 1.0).abs() < 0.03, "{found:?}");
        assert_eq!(found.freedom, 16.0);
    }

    #[test]
    fn the_freedom_that_variances_were_drawn_with_is_found() {
        for kin in [2.0, 6.0] {
            let found = prior(&drawn(20_000, Some(kin)), 4.0).unwrap();
            assert!((found.freedom / kin - 1.0).abs() < 0.15, "{kin}: {found:?}");
            assert!((found.deviation / 0.02 - 1.0).abs() < 0.05, "{kin}: {found:?}");
        }
    }

    #[test]
    fn a_few_groups_that_agree_or_were_hit_do_not_decide() {
        let mut variances = drawn(40, None);
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
    fn a_group_far_noisier_than_its_kin_is_left_alone_and_the_noisiest_of_equals_is_not() {
        let kin = Prior {
            deviation: 0.02,
            freedom: 32.0,
        };
        let of = |deviation: f64| kin.for_one(deviation * deviation, 8.0, 20).freedom;
        // F(8, 32) passes 1.45² with 6 %, more than one of twenty, and 10² never.
        assert_eq!([0.01, 0.02, 0.029].map(of), [32.0; 3]);
        assert!((0.1..10.0).contains(&of(0.04)), "{}", of(0.04));
        assert!(of(0.2) < 1e-6, "{}", of(0.2));
    }

    #[test]
    fn few_groups_and_groups_that_mostly_agree_make_none() {
        assert_eq!(prior(&[0.1; 7], 4.0), None);
        assert!(prior(&[0.1; 8], 4.0).is_some());
        assert_eq!(prior(&[0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1], 4.0), None);
        assert_eq!(prior(&[f64::NAN; 8], 4.0).map(|prior| prior.freedom), None);
        assert_eq!(prior(&[0.1; 8], 0.0), None);
    }
}
