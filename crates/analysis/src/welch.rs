//! Welch's t-test of two means with unequal variances.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{CONFIDENCE, Interval, Prior};

/// Parameters of [`welch`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WelchTerms {
    /// Confidence level of the interval, between 0 and 1.
    pub confidence: f64,
    /// Minimum standard deviation of a group, so that values that agree by chance are not significant. Relative if the values are
    /// logarithms. 0 disables it.
    pub min_deviation: f64,
    /// Prior on the standard deviation, learned from many similar comparisons.
    pub prior: Option<Prior>,
    /// Part of the standard error of the difference that more values do not reduce, such as the sampling error of shared test examples. 0
    /// disables it.
    pub shared_error: f64,
}

impl Default for WelchTerms {
    fn default() -> Self {
        Self {
            confidence: CONFIDENCE,
            min_deviation: 0.0,
            prior: None,
            shared_error: 0.0,
        }
    }
}

/// Result of Welch's test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// Mean of the candidate − mean of the baseline; for [`welch_ratio`], the ratio of their geometric means.
    pub value: f64,
    /// Confidence interval of `value`.
    pub interval: Interval,
    /// Two-sided p-value.
    pub p: f64,
    /// Standard error of the difference; for [`welch_ratio`], of the logarithm of the ratio.
    pub error: f64,
    /// Degrees of freedom (Welch–Satterthwaite, plus those of the prior).
    pub freedom: f64,
}

/// Computes Welch's two-sided t-test (Welch 1947, doi:10.1093/biomet/34.1-2.28), which assumes approximately normal values. If all values
/// of one group are equal, the standard error and the degrees of freedom are those of the other group.
///
/// A prior adds its degrees of freedom. It also sets a lower bound for the standard error, computed from the moderated variance (Smyth
/// 2004, doi:10.2202/1544-6115.1027). The moderated variance is the mean of the prior's variance and the pooled variance of the groups,
/// weighted by degrees of freedom. A prior from quiet groups thus cannot make a noisy group significant.
///
/// Returns `None` if a group has fewer than two values, a value is not finite, or the standard error is 0: five equal values do not show by
/// how much a sixth may differ.
pub fn welch(baseline: &[f64], candidate: &[f64], terms: &WelchTerms) -> Option<Welch> {
    let (a, b) = (Group::new(baseline, terms)?, Group::new(candidate, terms)?);
    let welch_variance = a.variance_of_mean() + b.variance_of_mean();
    let welch_freedom = if welch_variance > 0.0 {
        welch_variance.powi(2)
            / (a.variance_of_mean().powi(2) / a.freedom() + b.variance_of_mean().powi(2) / b.freedom())
    } else {
        a.freedom() + b.freedom()
    };
    let (estimated, freedom) = match terms.prior {
        Some(prior) => {
            let within = pooled(&a, &b);
            let within_freedom = a.freedom() + b.freedom();
            let moderated = (prior.freedom * prior.deviation.powi(2) + within_freedom * within)
                / (prior.freedom + within_freedom);
            (
                welch_variance.max(moderated * (1.0 / a.n + 1.0 / b.n)),
                prior.freedom + welch_freedom,
            )
        }
        None => (welch_variance, welch_freedom),
    };
    let variance = estimated + terms.shared_error.powi(2);
    if !(variance > 0.0 && variance.is_finite()) {
        return None;
    }
    // The shared error is not estimated from the values, so its degrees of freedom are infinite in the Welch–Satterthwaite formula.
    let freedom = (freedom * (variance / estimated).powi(2)).min(MAX_FREEDOM);
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let (value, error) = (b.mean - a.mean, variance.sqrt());
    let half = student.inverse_cdf(f64::midpoint(1.0, terms.confidence)) * error;
    Some(Welch {
        value,
        interval: Interval {
            low: value - half,
            high: value + half,
        },
        p: two_sided_p(&student, value, error),
        error,
        freedom,
    })
}

impl Welch {
    /// Returns the p-value of another difference with the same standard error; for [`welch_ratio`], of a difference of logarithms.
    pub(crate) fn p_of(&self, difference: f64) -> f64 {
        StudentsT::new(0.0, 1.0, self.freedom)
            .map_or(f64::NAN, |student| two_sided_p(&student, difference, self.error))
    }
}

fn two_sided_p(student: &StudentsT, value: f64, error: f64) -> f64 {
    (2.0 * student.sf(value.abs() / error)).min(1.0)
}

/// Computes [`welch`] of the logarithms. `value` and `interval` are ratios of geometric means, candidate / baseline; standard deviations
/// are relative. Also returns `None` if a value is not positive.
pub fn welch_ratio(baseline: &[f64], candidate: &[f64], terms: &WelchTerms) -> Option<Welch> {
    let found = welch(&logarithms(baseline)?, &logarithms(candidate)?, terms)?;
    Some(Welch {
        value: found.value.exp(),
        interval: Interval {
            low: found.interval.low.exp(),
            high: found.interval.high.exp(),
        },
        ..found
    })
}

/// Computes the logarithms. Returns `None` if a value is not positive and finite.
pub(crate) fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let log = |value: &f64| (*value > 0.0 && value.is_finite()).then(|| value.ln());
    values.iter().map(log).collect()
}

/// Computes the mean and the sample variance. Returns `None` for fewer than two values, or if a value is not finite.
pub(crate) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 2 || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    // Rounding errors must not cause a positive variance of equal values.
    if values.iter().all(|value| *value == values[0]) {
        return Some((values[0], 0.0));
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, squares / (n - 1.0)))
}

/// Maximum degrees of freedom. With more, Student's t distribution equals the normal one to six digits at any relevant p-value.
const MAX_FREEDOM: f64 = 1e6;

struct Group {
    n: f64,
    mean: f64,
    variance: f64,
}

impl Group {
    fn new(values: &[f64], terms: &WelchTerms) -> Option<Self> {
        let (mean, variance) = moments(values)?;
        Some(Self {
            n: values.len() as f64,
            mean,
            variance: variance.max(terms.min_deviation.powi(2)),
        })
    }

    fn variance_of_mean(&self) -> f64 {
        self.variance / self.n
    }

    fn freedom(&self) -> f64 {
        self.n - 1.0
    }
}

/// Returns the pooled variance within both groups.
fn pooled(a: &Group, b: &Group) -> f64 {
    (a.freedom() * a.variance + b.freedom() * b.variance) / (a.freedom() + b.freedom())
}

/// Returns the pooled variance within two groups and its degrees of freedom, from which a [`Prior`] is learned.
pub(crate) fn pooled_variance(baseline: &[f64], candidate: &[f64]) -> Option<(f64, f64)> {
    let plain = WelchTerms::default();
    let (a, b) = (Group::new(baseline, &plain)?, Group::new(candidate, &plain)?);
    Some((pooled(&a, &b), a.freedom() + b.freedom()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: WelchTerms = WelchTerms {
        confidence: 0.95,
        min_deviation: 0.0,
        prior: None,
        shared_error: 0.0,
    };

    #[test]
    fn welch_matches_hand_calculation() {
        // Means 2 and 5, variances 1 and 4: error √(5/3), freedom (5/3)²/((1/9 + 16/9)/2) = 50/17.
        let found = welch(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0], &PLAIN).unwrap();
        assert_eq!(found.value, 3.0);
        assert!((found.error - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((found.freedom - 50.0 / 17.0).abs() < 1e-12);
        assert!(found.interval.low < 0.0 && found.p > 0.05, "{found:?}");
    }

    #[test]
    fn constant_group_leaves_the_freedom_of_the_other_group() {
        let found = welch(&[1.0; 5], &[1.0, 2.0, 3.0], &PLAIN).unwrap();
        assert!((found.freedom - 2.0).abs() < 1e-12);
        assert!((found.error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn constant_groups_need_a_minimum_deviation_or_shared_error() {
        assert_eq!(welch(&[0.1; 5], &[0.2; 5], &PLAIN), None);
        let least = WelchTerms {
            min_deviation: 0.05,
            ..PLAIN
        };
        let found = welch(&[0.1; 5], &[0.2; 5], &least).unwrap();
        assert!((found.error - 0.05 * 0.4f64.sqrt()).abs() < 1e-12);
        assert!(
            (found.freedom - 8.0).abs() < 1e-9,
            "a floor does not add degrees of freedom"
        );
        let shared = WelchTerms {
            shared_error: 0.05,
            ..PLAIN
        };
        // 0.1 is two standard errors, and with so many degrees of freedom the normal distribution applies.
        assert!((welch(&[0.1; 5], &[0.2; 5], &shared).unwrap().p - 0.0455).abs() < 1e-4);
    }

    #[test]
    fn a_prior_adds_its_degrees_of_freedom() {
        let prior = WelchTerms {
            prior: Some(Prior {
                deviation: 2.0,
                freedom: 6.0,
            }),
            ..PLAIN
        };
        // The moderated variance is (6·4 + 4·1)/10 = 2.8. The squared standard error is 2.8/3 for each of the two means.
        let found = welch(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0], &prior).unwrap();
        assert!((found.error - (2.0 * 2.8 / 3.0f64).sqrt()).abs() < 1e-12);
        assert!((found.freedom - 10.0).abs() < 1e-9);
    }

    #[test]
    fn prior_never_reduces_the_error_of_a_noisy_group() {
        let quiet = WelchTerms {
            prior: Some(Prior {
                deviation: 0.1,
                freedom: 6.0,
            }),
            ..PLAIN
        };
        let [with, without] =
            [quiet, PLAIN].map(|terms| welch(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0], &terms).unwrap());
        assert_eq!(with.error, without.error);
    }

    #[test]
    fn doubled_times_have_a_ratio_of_two() {
        let found = welch_ratio(&[1.0, 1.1, 0.9], &[2.0, 2.2, 1.8], &PLAIN).unwrap();
        assert!((found.value - 2.0).abs() < 1e-12);
        assert!(found.interval.contains(2.0) && found.interval.low > 1.0);
    }

    #[test]
    fn short_and_invalid_groups_have_no_test() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0], &PLAIN), None);
        assert_eq!(welch(&[1.0, f64::NAN], &[1.0, 2.0], &PLAIN), None);
        assert_eq!(welch_ratio(&[0.0, 1.0], &[1.0, 2.0], &PLAIN), None);
    }
}
