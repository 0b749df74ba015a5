//! A value with its whiskers: the interval of one row, or the range over the rows of several seeds.

use mantissa_analysis::{Estimate, Sample};

/// A finite value with finite whiskers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spot {
    pub value: f64,
    pub whiskers: Option<(f64, f64)>,
}

impl Spot {
    /// Converts the estimate of one row, with its interval as whiskers. `None` if the value is not finite.
    pub fn of(estimate: &Estimate) -> Option<Self> {
        let interval = estimate.interval.map(|interval| (interval.low, interval.high));
        estimate.value.is_finite().then_some(Self {
            value: estimate.value,
            whiskers: interval.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// Returns the mean or the median over several seeds, with whiskers from the lowest seed to the highest. One seed is returned unchanged.
    pub(super) fn over_seeds(spots: &[Self], mean: bool) -> Option<Self> {
        if let [only] = spots {
            return Some(*only);
        }
        let values = spots.iter().map(|spot| spot.value);
        let sample = Sample::new(values.clone())?;
        Some(Self {
            value: match mean {
                true => values.sum::<f64>() / spots.len() as f64,
                false => sample.median(),
            },
            whiskers: Some((sample.quantile(0.0), sample.quantile(1.0))),
        })
    }

    /// Applies a monotonic function to value and whiskers. `None` if the value becomes infinite or NaN.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Option<Self> {
        let whiskers = self.whiskers.map(|(low, high)| (function(low), function(high)));
        let whiskers = whiskers.map(|(a, b)| (a.min(b), a.max(b)));
        let value = function(self.value);
        value.is_finite().then_some(Self {
            value,
            whiskers: whiskers.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// Returns the smallest and the largest drawn value.
    pub fn ends(self) -> (f64, f64) {
        let (low, high) = self.whiskers.unwrap_or((self.value, self.value));
        (low.min(self.value), high.max(self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(value: f64, whiskers: Option<(f64, f64)>) -> Spot {
        Spot { value, whiskers }
    }

    #[test]
    fn several_seeds_have_the_range_as_whiskers_and_one_seed_keeps_its_interval() {
        let one = spot(2.0, Some((1.5, 2.5)));
        assert_eq!(Spot::over_seeds(&[one], false), Some(one));
        let three = [one, spot(7.0, None), spot(3.0, Some((0.0, 9.0)))];
        assert_eq!(
            Spot::over_seeds(&three, false),
            Some(spot(3.0, Some((2.0, 7.0)))),
            "median"
        );
        assert_eq!(
            Spot::over_seeds(&three, true),
            Some(spot(4.0, Some((2.0, 7.0)))),
            "mean"
        );
        assert_eq!(Spot::over_seeds(&[], true), None);
    }

    #[test]
    fn inverse_of_a_rate_swaps_its_whiskers_and_drops_infinite_ones() {
        let rate = spot(4.0, Some((2.0, 8.0)));
        assert_eq!(rate.map(|rate| 1.0 / rate), Some(spot(0.25, Some((0.125, 0.5)))));
        let from_zero = spot(4.0, Some((0.0, 8.0)));
        assert_eq!(from_zero.map(|rate| 1.0 / rate), Some(spot(0.25, None)));
        assert_eq!(spot(0.0, None).map(|rate| 1.0 / rate), None);
        assert_eq!(rate.ends(), (2.0, 8.0));
    }
}
