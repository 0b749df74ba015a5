//! Mean with Student's t interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{CONFIDENCE, Estimate, Interval};

/// Estimates the mean with Student's t interval, which assumes approximately normal values. The interval is used for a few seeds, for
/// which no distribution-free interval exists. A single value has no interval. Returns `None` without values, or if a value is not finite.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let n = values.len() as f64;
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half = |student: StudentsT| {
        let t = student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
        t * (squares / (n - 1.0) / n).sqrt()
    };
    let half = StudentsT::new(0.0, 1.0, n - 1.0).ok().map(half);
    Some(Estimate {
        value: mean,
        interval: half.map(|half| Interval {
            low: mean - half,
            high: mean + half,
        }),
        n: values.len() as u64,
        method: "mean, Student",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_matches_hand_calculation() {
        // Mean 2, standard deviation 1, 2 degrees of freedom: the half-width is 4.302653 / √3 = 2.484138.
        let found = mean(&[1.0, 3.0, 2.0]).unwrap();
        let interval = found.interval.unwrap();
        assert_eq!((found.value, found.n), (2.0, 3));
        assert!((interval.high - 4.484_138).abs() < 1e-5, "{interval:?}");
        assert!((interval.low + 0.484_138).abs() < 1e-5, "{interval:?}");
    }

    #[test]
    fn single_value_has_no_interval() {
        assert_eq!(mean(&[7.0]).unwrap().interval, None);
        let flat = mean(&[7.0; 4]).unwrap().interval.unwrap();
        assert_eq!((flat.low, flat.high), (7.0, 7.0));
    }

    #[test]
    fn empty_and_nan_input_has_no_mean() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, f64::NAN]), None);
    }
}
