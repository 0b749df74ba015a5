//! McNemar's test of two settings on the same examples.

use crate::{Estimate, Interval, binomial_half, estimate::Z};

/// Accuracies of two classifiers on the same examples.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedAccuracy {
    /// Number of examples that only the first predicts correctly.
    pub only_first: u64,
    /// Number of examples that only the second predicts correctly.
    pub only_second: u64,
    /// Accuracy of the first − accuracy of the second, with the interval of Bonett and Price 2012 (doi:10.3102/1076998611411915).
    pub difference: Estimate,
    /// Two-sided p-value of McNemar's exact test.
    pub p: f64,
}

/// Compares two settings by the correctness of their predictions on the same examples. Returns `None` if the slices differ in length or are
/// empty.
///
/// Only examples that exactly one setting predicts correctly show which setting is better. If neither is better, each of these examples
/// favours either setting with probability 1/2 (McNemar 1947, doi:10.1007/BF02295996). The result applies to these examples and these
/// weights. For the variation over seeds, use [`crate::paired`].
pub fn paired_accuracy(first: &[bool], second: &[bool]) -> Option<PairedAccuracy> {
    if first.len() != second.len() || first.is_empty() {
        return None;
    }
    let count = |only: (bool, bool)| {
        first
            .iter()
            .zip(second)
            .filter(|(a, b)| (**a, **b) == only)
            .count() as u64
    };
    let (only_first, only_second) = (count((true, false)), count((false, true)));
    Some(PairedAccuracy {
        only_first,
        only_second,
        difference: accuracy_difference(only_first, only_second, first.len() as u64),
        p: mcnemar(only_first, only_second),
    })
}

/// Computes the two-sided p-value of McNemar's exact test from the numbers of examples that only one setting predicts correctly.
pub fn mcnemar(only_first: u64, only_second: u64) -> f64 {
    (2.0 * binomial_half::cdf(only_first.min(only_second), only_first + only_second)).min(1.0)
}

/// Estimates the difference of two accuracies, first − second, from the numbers of examples that only one setting predicts correctly, out of
/// `n` examples. The interval is that of Bonett and Price 2012 (doi:10.3102/1076998611411915). `n` must not be 0.
pub fn accuracy_difference(only_first: u64, only_second: u64, n: u64) -> Estimate {
    let share = |count: u64| (count as f64 + 1.0) / (n as f64 + 2.0);
    let (a, b) = (share(only_first), share(only_second));
    let half = Z * ((a + b - (a - b) * (a - b)) / (n as f64 + 2.0)).sqrt();
    let value = (only_first as f64 - only_second as f64) / n as f64;
    Estimate {
        value,
        interval: Some(Interval {
            low: (a - b - half).max(-1.0).min(value),
            high: (a - b + half).min(1.0).max(value),
        }),
        n,
        method: "paired difference, Bonett–Price",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_value_matches_the_binomial_distribution() {
        assert!((mcnemar(0, 5) - 2.0 / 32.0).abs() < 1e-12);
        assert!((mcnemar(1, 5) - 2.0 * 7.0 / 64.0).abs() < 1e-12);
        assert_eq!(mcnemar(3, 3), 1.0);
        assert_eq!(mcnemar(0, 0), 1.0);
        assert_eq!(mcnemar(7, 2), mcnemar(2, 7));
    }

    #[test]
    fn pairs_are_counted_by_correctness() {
        let first = [true, true, false, true, false];
        let second = [true, false, false, false, true];
        let found = paired_accuracy(&first, &second).unwrap();
        assert_eq!((found.only_first, found.only_second), (2, 1));
        assert!((found.difference.value - 0.2).abs() < 1e-12);
        assert_eq!(found.p, 1.0);
        assert_eq!(paired_accuracy(&[], &[]), None);
        assert_eq!(paired_accuracy(&[true], &[]), None);
    }

    #[test]
    fn interval_matches_hand_calculation_and_statpsych() {
        // n = 98, of which 9 and 4 favour one setting: shares 10/100 and 5/100, half-width 1.96·√((0.15 − 0.0025)/100) = 0.075273.
        let interval = accuracy_difference(9, 4, 98).interval.unwrap();
        assert!((interval.low + 0.025_273).abs() < 1e-6 && (interval.high - 0.125_273).abs() < 1e-6);
        // Example of the R package statpsych: `ci.prop.ps(.05, 12, 4, 26, 6)`.
        let interval = accuracy_difference(26, 4, 48).interval.unwrap();
        assert!((interval.low - 0.254_806_7).abs() < 1e-6 && (interval.high - 0.625_193_3).abs() < 1e-6);
    }

    #[test]
    fn equal_predictions_have_an_interval() {
        let interval = accuracy_difference(0, 0, 100).interval.unwrap();
        assert!(interval.low < 0.0 && interval.high > 0.0);
    }
}
