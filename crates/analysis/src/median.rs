//! Median with a distribution-free confidence interval.

use crate::{CONFIDENCE, Estimate, Interval, Sample, binomial_half};

/// Minimum number of values for an interval of the median at [`CONFIDENCE`]. For five values, the widest interval (their range) covers the
/// median with a probability of only 1 − 2/2⁵ = 93.75 %.
pub const MEDIAN_INTERVAL_MIN_VALUES: usize = 6;

/// Estimates the median with the interval of [`median_interval`]. Returns `None` without values, or if a value is not finite.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
    let sample = Sample::new(values)?;
    Some(Estimate {
        value: sample.median(),
        interval: median_interval(&sample),
        n: sample.sorted().len() as u64,
        method: "median, order statistics",
    })
}

/// Computes the interval of the median at [`CONFIDENCE`] from order statistics, for any distribution.
///
/// The number of values below the median has a binomial distribution. The interval from the d-th smallest to the d-th largest value
/// therefore has a known coverage. The coverage depends on d in steps, none of which equals [`CONFIDENCE`]. The ends are therefore
/// interpolated between two steps: the narrowest interval with sufficient coverage and the next narrower one (Hettmansperger and Sheather
/// 1986, doi:10.1016/0167-7152(86)90021-0; Nyblom 1992, doi:10.1016/0167-7152(92)90076-H).
///
/// Interpolation assumes a continuous distribution. If values within the wider interval are tied, as with a coarse clock, the result is the
/// wider interval, whose coverage is sufficient for any distribution.
///
/// Returns `None` for fewer than [`MEDIAN_INTERVAL_MIN_VALUES`] values.
pub fn median_interval(sample: &Sample) -> Option<Interval> {
    let values = sample.sorted();
    let ranks = Ranks::new(values.len())?;
    Some(ranks.interval(&values[ranks.outer..values.len() - ranks.outer]))
}

/// Order statistics that bound the interval, for a given number of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranks {
    /// Number of values below the wider interval; as many are above it.
    pub(crate) outer: usize,
    /// Weight of the narrower interval in the interpolation, from 0 to 1.
    inward: f64,
}

impl Ranks {
    pub(crate) fn new(n: usize) -> Option<Self> {
        let tail = (1.0 - CONFIDENCE) / 2.0;
        if n < MEDIAN_INTERVAL_MIN_VALUES {
            return None;
        }
        let tail_probability = |outer: usize| binomial_half::cdf(outer as u64, n as u64);
        // Bisects for the largest `outer` whose tail probability is at most half of 1 − `CONFIDENCE`.
        let (mut outer, mut too_many) = (0, n / 2);
        while too_many - outer > 1 {
            let middle = outer + (too_many - outer) / 2;
            if tail_probability(middle) <= tail {
                outer = middle;
            } else {
                too_many = middle;
            }
        }
        let (wide, narrow) = (
            1.0 - 2.0 * tail_probability(outer),
            1.0 - 2.0 * tail_probability(outer + 1),
        );
        let part = (wide - CONFIDENCE) / (wide - narrow);
        let (rank, n) = ((outer + 1) as f64, n as f64);
        Some(Self {
            outer,
            inward: (n - rank) * part / (rank + (n - 2.0 * rank) * part),
        })
    }

    /// Returns the interval. `band`: the sorted values within the wider interval, ends included.
    pub(crate) fn interval(self, band: &[f64]) -> Interval {
        let last = band.len() - 1;
        let tied = band.windows(2).any(|pair| pair[0] == pair[1]);
        let inward = if tied { 0.0 } else { self.inward };
        Interval {
            low: band[0] + (band[1] - band[0]) * inward,
            high: band[last] - (band[last] - band[last - 1]) * inward,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval(values: &[f64]) -> Interval {
        median(values.iter().copied()).unwrap().interval.unwrap()
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-6, "{actual} {expected}");
    }

    #[test]
    fn interval_of_ten_values_matches_hand_calculation() {
        // The 2nd and 9th value have a coverage of 1 − 22/1024 = 0.978516; the 3rd and 8th, of 1 − 112/1024 = 0.890625. `part` =
        // 0.028516/0.087891 = 0.324444; `inward` = 8 · `part`/(2 + 6 · `part`) = 0.657658.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = interval(&values);
        assert_close(found.low, 2.657_658);
        assert_close(found.high, 8.342_342);
    }

    #[test]
    fn interval_of_six_values_matches_hand_calculation() {
        // The range has a coverage of 1 − 2/64 = 0.96875; the next narrower interval, of 1 − 14/64 = 0.78125. `part` = 0.1; `inward` =
        // 5·0.1/(1 + 4·0.1) = 0.357143.
        let found = interval(&[5.0, 1.0, 4.0, 2.0, 6.0, 3.0]);
        assert_close(found.low, 1.357_143);
        assert_close(found.high, 5.642_857);
    }

    #[test]
    fn ties_disable_interpolation() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 7.0, 8.0, 9.0, 10.0];
        assert_eq!(interval(&values), Interval { low: 2.0, high: 9.0 });
    }

    #[test]
    fn five_values_have_no_interval() {
        let five = median([3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!((five.value, five.interval, five.n), (3.0, None, 5));
        assert_eq!(median([]), None);
        assert_eq!(median([1.0, f64::NAN]), None);
    }

    #[test]
    fn equal_values_have_a_zero_width_interval() {
        assert_eq!(interval(&[0.1; 7]), Interval { low: 0.1, high: 0.1 });
    }

    #[test]
    fn ranks_of_a_million_values_match_the_normal_distribution() {
        // n/2 − 1.96·√n/2 = 499 020, approximately.
        let outer = Ranks::new(1_000_000).unwrap().outer;
        assert!(outer.abs_diff(499_020) <= 2, "{outer}");
    }

    proptest! {
        #[test]
        fn interval_contains_the_median_and_stays_in_the_range(
            values in proptest::collection::vec(-1e6f64..1e6, 6..60),
        ) {
            let found = interval(&values);
            let sample = Sample::new(values).unwrap();
            prop_assert!(found.contains(sample.median()));
            prop_assert!(sample.quantile(0.0) <= found.low && found.high <= sample.quantile(1.0));
        }

        #[test]
        fn interpolation_weight_is_between_0_and_1(n in 6usize..5_000) {
            let ranks = Ranks::new(n).unwrap();
            prop_assert!((0.0..1.0).contains(&ranks.inward) && 2 * ranks.outer + 2 <= n);
        }
    }
}
