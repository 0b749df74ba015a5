//! Equivalence tests, which can show that two settings learn equally well. A difference that is not significant does not show this.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::Interval;

/// Result of two one-sided tests (TOST).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// Difference of the means, first − second.
    pub difference: f64,
    /// **90 %** interval of the difference. It lies within ±margin exactly if the samples are equivalent at 5 %.
    pub interval: Interval,
    /// The larger p-value of the two one-sided tests.
    pub p: f64,
}

impl Equivalence {
    /// Returns true if the tests show, at the 5 % level, that the means differ by less than the margin.
    pub fn holds(&self) -> bool {
        self.p <= 0.05
    }
}

/// Tests if two means differ by less than `margin`, with two one-sided tests (Schuirmann 1987, doi:10.1007/BF01068419) based on Welch's t
/// and one value per seed. Assumes approximately normal means. Returns `None` (inconclusive) if a sample has fewer than two values, a value
/// is not finite, or the margin is not above 0.
pub fn equivalence(first: &[f64], second: &[f64], margin: f64) -> Option<Equivalence> {
    let (a, b) = (Moments::new(first)?, Moments::new(second)?);
    if margin.is_nan() || margin <= 0.0 {
        return None;
    }
    let difference = a.mean - b.mean;
    let (va, vb) = (a.variance / a.n, b.variance / b.n);
    let error = (va + vb).sqrt();
    if error == 0.0 {
        let p = if difference.abs() < margin { 0.0 } else { 1.0 };
        let interval = Interval {
            low: difference,
            high: difference,
        };
        return Some(Equivalence {
            difference,
            interval,
            p,
        });
    }
    let freedom = (va + vb).powi(2) / (va * va / (a.n - 1.0) + vb * vb / (b.n - 1.0));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = student.inverse_cdf(0.95) * error;
    Some(Equivalence {
        difference,
        interval: Interval {
            low: difference - half,
            high: difference + half,
        },
        // The one-sided test against the end of ±margin that is nearer to the difference has the larger p-value.
        p: student.sf((margin - difference.abs()) / error),
    })
}

/// Tests if the mean loss curves of two settings differ by less than `margin` in every part of the training. A curve contains the losses of
/// one seed, one per step. Splits the steps into `windows` equal parts and applies [`equivalence`] to the mean losses in each part. Returns
/// the result with the largest p-value. All parts must be equivalent, so no correction for multiple tests is needed (Berger 1982,
/// doi:10.1080/00401706.1982.10487790).
///
/// Returns `None` in the cases of [`equivalence`], if curves differ in length, or if they have fewer steps than there are windows.
pub fn equivalent_curves(
    first: &[Vec<f64>],
    second: &[Vec<f64>],
    margin: f64,
    windows: usize,
) -> Option<Equivalence> {
    let steps = first.first()?.len();
    let same_length = first.iter().chain(second).all(|curve| curve.len() == steps);
    if !same_length || windows == 0 || steps < windows {
        return None;
    }
    let parts = (0..windows).map(|part| {
        let steps = part * steps / windows..(part + 1) * steps / windows;
        let means = |curves: &[Vec<f64>]| -> Vec<f64> {
            let mean = |curve: &Vec<f64>| curve[steps.clone()].iter().sum::<f64>() / steps.len() as f64;
            curves.iter().map(mean).collect()
        };
        equivalence(&means(first), &means(second), margin)
    });
    let parts: Vec<Equivalence> = parts.collect::<Option<_>>()?;
    parts.into_iter().max_by(|a, b| a.p.total_cmp(&b.p))
}

struct Moments {
    n: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn new(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { n, mean, variance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tost_matches_hand_calculation() {
        // Means 2 and 2, variances 1: standard error √(2/3) = 0.816497, 4 degrees of freedom, t₀.₉₅ = 2.131847.
        let found = equivalence(&[1.0, 2.0, 3.0], &[3.0, 1.0, 2.0], 1.740_65).unwrap();
        assert_eq!(found.difference, 0.0);
        assert!((found.interval.high - 1.740_646).abs() < 1e-5);
        // The margin equals the end of the interval, so p is 5 %.
        assert!((found.p - 0.05).abs() < 1e-5 && found.holds());
    }

    #[test]
    fn a_difference_beyond_the_margin_is_never_equivalent() {
        let found = equivalence(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2], 0.5).unwrap();
        assert!(found.p > 0.95, "{found:?}");
    }

    #[test]
    fn insignificant_difference_is_not_equivalence() {
        let found = equivalence(&[1.0, 2.0], &[1.5, 2.5], 0.6).unwrap();
        assert!(!found.holds());
    }

    #[test]
    fn constant_values_are_compared_exactly() {
        assert!(equivalence(&[1.0, 1.0], &[1.0, 1.0], 0.1).unwrap().holds());
        assert!(!equivalence(&[1.0, 1.0], &[2.0, 2.0], 0.1).unwrap().holds());
    }

    #[test]
    fn invalid_input_has_no_result() {
        assert_eq!(equivalence(&[1.0], &[1.0, 2.0], 0.1), None);
        assert_eq!(equivalence(&[1.0, f64::NAN], &[1.0, 2.0], 0.1), None);
        assert_eq!(equivalence(&[1.0, 2.0], &[1.0, 2.0], 0.0), None);
    }

    #[test]
    fn curves_that_differ_in_one_window_are_not_equivalent() {
        let curve = |seed: f64, bump: f64| -> Vec<f64> {
            let loss =
                |i: i32| (-f64::from(i) / 20.0).exp() + seed + if (40..50).contains(&i) { bump } else { 0.0 };
            (0..100).map(loss).collect()
        };
        let curves = |bump| [0.0, 0.01, 0.02].map(|seed| curve(seed, bump)).to_vec();
        let compare = |bump| equivalent_curves(&curves(0.0), &curves(bump), 0.1, 10).unwrap();
        assert!(compare(0.0).holds());
        let different = compare(0.2);
        assert!(!different.holds() && (different.difference + 0.2).abs() < 1e-9);
    }

    #[test]
    fn mismatched_curves_have_no_result() {
        let curves = vec![vec![1.0; 4]; 3];
        assert_eq!(equivalent_curves(&curves, &[vec![1.0; 5]], 0.1, 2), None);
        assert_eq!(equivalent_curves(&curves, &curves, 0.1, 5), None);
        assert_eq!(equivalent_curves(&[], &curves, 0.1, 2), None);
    }
}
