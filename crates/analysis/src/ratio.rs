//! Ratio of two estimates.

use crate::{Estimate, Interval};

/// Computes `numerator / denominator` of two independent positive estimates, for example a speed-up: seconds of the baseline divided by
/// seconds of a setting.
///
/// The interval is computed on the logarithmic scale by MOVER, the method of variance estimates recovery (Zou and Donner 2008,
/// doi:10.1002/sim.3095). The distance from the ratio to each end is √(a² + b²), where a and b are the distances from the two values to the
/// ends of their intervals. The lower end uses the numerator's lower and the denominator's upper end, and the upper end uses the other two.
/// Asymmetric intervals therefore stay asymmetric.
///
/// `n` is the smaller `n` of the parts. The ratio has an interval only if both parts have one with a positive lower end. Returns `None`
/// unless both values are positive and their ratio is finite.
pub fn ratio(numerator: &Estimate, denominator: &Estimate) -> Option<Estimate> {
    if !(numerator.value > 0.0 && denominator.value > 0.0) {
        return None;
    }
    let value = numerator.value / denominator.value;
    let interval = match (numerator.interval, denominator.interval) {
        (Some(a), Some(b)) if a.low > 0.0 && b.low > 0.0 => {
            let down = (numerator.value / a.low)
                .ln()
                .hypot((b.high / denominator.value).ln());
            let up = (a.high / numerator.value)
                .ln()
                .hypot((denominator.value / b.low).ln());
            Some(Interval {
                low: value * (-down).exp(),
                high: value * up.exp(),
            })
        }
        _ => None,
    };
    let n = numerator.n.min(denominator.n);
    value.is_finite().then_some(Estimate {
        value,
        interval,
        n,
        method: "ratio, MOVER",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, value: f64, high: f64) -> Estimate {
        Estimate {
            value,
            interval: Some(Interval { low, high }),
            n: 9,
            method: "",
        }
    }

    fn exact(value: f64) -> Estimate {
        Estimate {
            value,
            interval: None,
            n: 1,
            method: "",
        }
    }

    #[test]
    fn interval_matches_hand_calculation() {
        // Each part's interval extends from half to twice its value, so a = b = ln 2. The ends of the ratio's interval are 2^∓√2 = 0.375214
        // and 2.665144 times the ratio.
        let found = ratio(&estimate(6.0, 12.0, 24.0), &estimate(2.0, 4.0, 8.0)).unwrap();
        let interval = found.interval.unwrap();
        assert_eq!(found.value, 3.0);
        assert!(
            (interval.low - 3.0 * 0.375_214).abs() < 1e-5 && (interval.high - 3.0 * 2.665_144).abs() < 1e-5
        );
    }

    #[test]
    fn asymmetric_intervals_stay_asymmetric() {
        let wide_above = estimate(10.0, 10.0, 20.0);
        let sharp = estimate(5.0, 5.0, 5.0);
        assert_eq!(
            ratio(&wide_above, &sharp).unwrap().interval,
            Some(Interval { low: 2.0, high: 4.0 })
        );
        assert_eq!(
            ratio(&sharp, &wide_above).unwrap().interval,
            Some(Interval { low: 0.25, high: 0.5 })
        );
    }

    #[test]
    fn missing_interval_of_a_part_removes_the_interval() {
        let found = ratio(&exact(3.0), &estimate(1.0, 2.0, 3.0)).unwrap();
        assert_eq!((found.value, found.interval, found.n), (1.5, None, 1));
    }

    #[test]
    fn interval_that_reaches_zero_removes_the_interval() {
        assert_eq!(
            ratio(&estimate(0.0, 1.0, 2.0), &estimate(1.0, 1.0, 1.0))
                .unwrap()
                .interval,
            None
        );
    }

    #[test]
    fn zero_and_negative_values_have_no_ratio() {
        assert_eq!(ratio(&exact(0.0), &exact(1.0)), None);
        assert_eq!(ratio(&exact(1.0), &exact(0.0)), None);
        assert_eq!(ratio(&exact(-1.0), &exact(1.0)), None);
    }
}
