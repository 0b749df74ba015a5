//! Mean difference of two settings over seeds.

use crate::{Estimate, Interval, mean};

/// Estimates the mean over seeds of a difference between two settings. The interval of each difference covers the sampling error of its
/// test examples.
///
/// The interval of the mean is the smallest that contains Student's interval over seeds and the mean of the differences' intervals. All
/// seeds share their test examples, so more seeds do not reduce the sampling error of the examples. For a single seed, the result is its
/// difference, whose interval does not cover the variation over seeds.
///
/// Returns `None` without differences. The mean has an interval only if every difference has one.
pub fn mean_over_seeds(differences: &[Estimate]) -> Option<Estimate> {
    if let [difference] = differences {
        return Some(difference.clone());
    }
    let between = mean(&differences.iter().map(|one| one.value).collect::<Vec<_>>())?;
    let widened = |(between, shared): (Interval, Interval)| Interval {
        low: between.low.min(shared.low),
        high: between.high.max(shared.high),
    };
    Some(Estimate {
        value: between.value,
        interval: between.interval.zip(mean_interval(differences)).map(widened),
        n: differences.len() as u64,
        method: "over seeds",
    })
}

/// Returns the mean of the lower ends and the mean of the upper ends of the intervals. More seeds do not narrow this interval. Returns
/// `None` without differences, or if a difference has no interval.
pub(crate) fn mean_interval(differences: &[Estimate]) -> Option<Interval> {
    let ends: Vec<Interval> = differences
        .iter()
        .map(|one| one.interval)
        .collect::<Option<_>>()?;
    let mean = |pick: fn(&Interval) -> f64| ends.iter().map(pick).sum::<f64>() / ends.len() as f64;
    (!ends.is_empty()).then(|| Interval {
        low: mean(|ends| ends.low),
        high: mean(|ends| ends.high),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, ends: Option<(f64, f64)>) -> Estimate {
        Estimate {
            value,
            interval: ends.map(|(low, high)| Interval { low, high }),
            n: 1000,
            method: "",
        }
    }

    #[test]
    fn equal_seeds_keep_the_sampling_error_of_the_examples() {
        let one = estimate(0.01, Some((-0.02, 0.04)));
        let found = mean_over_seeds(&[one.clone(), one.clone(), one])
            .unwrap()
            .interval
            .unwrap();
        assert!((found.low + 0.02).abs() < 1e-12 && (found.high - 0.04).abs() < 1e-12);
    }

    #[test]
    fn different_seeds_widen_the_interval() {
        // Mean 0.02, standard deviation 0.01, upper end 0.02 + 4.302653 · 0.01/√3 = 0.0448.
        let seed = |value: f64| estimate(value, Some((value - 0.001, value + 0.001)));
        let found = mean_over_seeds(&[seed(0.01), seed(0.02), seed(0.03)]).unwrap();
        assert!(
            (found.interval.unwrap().high - 0.044_841).abs() < 1e-5,
            "{found:?}"
        );
    }

    #[test]
    fn missing_interval_of_one_seed_removes_the_interval() {
        let differences = [estimate(0.0, None), estimate(0.0, Some((0.0, 0.0)))];
        assert_eq!(mean_over_seeds(&differences).unwrap().interval, None);
        assert_eq!(mean_over_seeds(&[]), None);
    }
}
