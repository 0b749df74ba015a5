//! Hodges–Lehmann estimate of the ratio of two samples.

use crate::{
    Estimate, Interval,
    estimate::Z,
    mann_whitney::{convolve, smallest_p_within},
};

/// Maximum number of values, over all samples, for an exact null distribution. Beyond it, the normal approximation is used.
const MAX_EXACT_VALUES: usize = 40;

/// Estimates the Hodges–Lehmann ratio: the median of all quotients of a numerator and a denominator. Multiplying the denominators by this
/// factor aligns the samples (Hodges and Lehmann 1963, doi:10.1214/aoms/1177704172, on logarithms).
///
/// The interval contains every factor that a two-sided Mann–Whitney test does not reject at 5 %. It excludes 1 exactly if the test is
/// significant, and its coverage is at least 95 %. There is no interval if the samples are too small for significance (three against
/// three). `n` is the size of the smaller sample. Returns `None` if a sample is empty or a value is not positive and finite.
///
/// Takes two seconds for a million values, without storing the quotients.
pub fn hodges_lehmann_ratio(numerator: &[f64], denominator: &[f64]) -> Option<Estimate> {
    hodges_lehmann_ratio_within(&[(numerator, denominator)])
}

/// Estimates [`hodges_lehmann_ratio`] of several pairs of samples, from quotients within pairs only. Differences between pairs, such as the
/// seed, cancel out. The interval contains every factor that [`crate::mann_whitney_within`] does not reject at 5 %. For an
/// interval, one pair of samples must have four values on each side, two pairs three values, or six pairs one value.
pub fn hodges_lehmann_ratio_within(pairs: &[(&[f64], &[f64])]) -> Option<Estimate> {
    let sorted = |values: &[f64]| {
        let positive = values.iter().all(|value| *value > 0.0 && value.is_finite());
        (positive && !values.is_empty()).then(|| {
            let mut values = values.to_vec();
            values.sort_unstable_by(f64::total_cmp);
            values
        })
    };
    let sorted_pair = |(numerator, denominator): &(&[f64], &[f64])| {
        Some(Quotients {
            numerator: sorted(numerator)?,
            denominator: sorted(denominator)?,
        })
    };
    let quotients: Vec<Quotients> = pairs.iter().map(sorted_pair).collect::<Option<_>>()?;
    let count: u64 = quotients.iter().map(Quotients::count).sum();
    let last = count.checked_sub(1)?;
    let (lower, upper) = (
        nth_quotient(&quotients, last / 2),
        nth_quotient(&quotients, count / 2),
    );
    // Uses the geometric mean of the two middle quotients, so that swapping the samples gives the reciprocal.
    let value = if lower == upper {
        lower
    } else {
        lower.sqrt() * upper.sqrt()
    };
    let sizes: Vec<(usize, usize)> = pairs.iter().map(|(n, m)| (n.len(), m.len())).collect();
    let interval = quotients_outside(&sizes).map(|outside| Interval {
        low: nth_quotient(&quotients, outside).min(value),
        high: nth_quotient(&quotients, last - outside).max(value),
    });
    let n: usize = sizes.iter().map(|(n, m)| n.min(m)).sum();
    value.is_finite().then_some(Estimate {
        value,
        interval,
        n: n as u64,
        method: "ratio, Hodges–Lehmann",
    })
}

/// Returns the number of quotients beyond each end of the interval: the largest c with P(U ≤ c) ≤ 2.5 %, where U is the Mann–Whitney
/// statistic.
fn quotients_outside(sizes: &[(usize, usize)]) -> Option<u64> {
    let tail = (1.0 - crate::CONFIDENCE) / 2.0;
    if smallest_p_within(sizes) > 2.0 * tail {
        return None;
    }
    if sizes.iter().map(|(n, m)| n + m).sum::<usize>() > MAX_EXACT_VALUES {
        let sizes = || sizes.iter().map(|(n, m)| (*n as f64, *m as f64));
        let middle: f64 = sizes().map(|(n, m)| n * m / 2.0).sum();
        let variance: f64 = sizes().map(|(n, m)| n * m * (n + m + 1.0) / 12.0).sum();
        let beyond = (middle - Z * variance.sqrt() - 0.5).floor();
        return Some(beyond.max(0.0) as u64);
    }
    let counts = sizes
        .iter()
        .map(|(n, m)| order_counts(*n, *m))
        .reduce(|all, these| convolve(&all, &these))?;
    let total: f64 = counts.iter().sum();
    let mut below = 0.0;
    let outside = counts.iter().take_while(|count| {
        below += **count;
        below <= tail * total
    });
    (outside.count() as u64).checked_sub(1)
}

/// Counts, for each u, the orders of n and m distinct values in which the first sample has the larger value in u of the n·m pairs.
fn order_counts(n: usize, m: usize) -> Vec<f64> {
    // Gaussian binomial coefficient (n+m choose n): multiply by (1 − x^(m+i)) and divide by (1 − x^i), for i from 1 to n.
    let mut counts = vec![0.0; n * m + 1];
    counts[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..counts.len()).rev() {
            counts[u] -= counts[u - m - i];
        }
        for u in i..counts.len() {
            counts[u] += counts[u - i];
        }
    }
    counts
}

/// All quotients of two sorted samples, computed on demand.
struct Quotients {
    numerator: Vec<f64>,
    denominator: Vec<f64>,
}

impl Quotients {
    fn count(&self) -> u64 {
        self.numerator.len() as u64 * self.denominator.len() as u64
    }

    fn at_most(&self, bound: f64) -> u64 {
        let mut too_small = 0;
        let mut count = 0;
        for numerator in &self.numerator {
            while too_small < self.denominator.len() && numerator / self.denominator[too_small] > bound {
                too_small += 1;
            }
            count += (self.denominator.len() - too_small) as u64;
        }
        count
    }
}

/// Returns the quotient with `below` others before it in sorted order. Bisects the bits of positive floats, which are ordered like their
/// values. Division rounds monotonically, so counting needs one pass along both samples of a pair.
fn nth_quotient(pairs: &[Quotients], below: u64) -> f64 {
    let (mut low, mut high) = (0, f64::INFINITY.to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        let bound = f64::from_bits(middle);
        if pairs.iter().map(|pair| pair.at_most(bound)).sum::<u64>() > below {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    f64::from_bits(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mann_whitney;

    fn ends(numerator: &[f64], denominator: &[f64]) -> (f64, f64) {
        let interval = hodges_lehmann_ratio(numerator, denominator)
            .unwrap()
            .interval
            .unwrap();
        (interval.low, interval.high)
    }

    #[test]
    fn ratio_is_the_median_quotient() {
        // Sorted, the quotients 2/1 3/1 8/1 2/4 3/4 8/4 2/5 3/5 8/5 are 0.4 0.5 0.6 0.75 1.6 2 2 3 8.
        let found = hodges_lehmann_ratio(&[8.0, 2.0, 3.0], &[5.0, 1.0, 4.0]).unwrap();
        assert_eq!((found.value, found.interval, found.n), (1.6, None, 3));
        // The geometric mean of 2 and 8.
        assert!((hodges_lehmann_ratio(&[8.0, 2.0], &[1.0]).unwrap().value - 4.0).abs() < 1e-14);
    }

    #[test]
    fn interval_of_four_against_four_spans_all_quotients() {
        // P(U ≤ 0) = 1/70 < 0.025, P(U ≤ 1) = 2/70 > 0.025.
        assert_eq!(
            ends(&[10.0, 11.0, 12.0, 13.0], &[1.0, 1.25, 2.0, 4.0]),
            (2.5, 13.0)
        );
    }

    #[test]
    fn exact_ranks_match_printed_tables() {
        // P(U ≤ 2) = 4/252 = 0.016, P(U ≤ 3) = 7/252 = 0.028.
        let quotients_outside = |n, m| quotients_outside(&[(n, m)]);
        assert_eq!(quotients_outside(5, 5), Some(2));
        assert_eq!(quotients_outside(4, 4), Some(0));
        assert_eq!(quotients_outside(3, 3), None);
        assert_eq!(quotients_outside(3, 5), Some(0), "P(U ≤ 0) = 1/56");
        // Two-sided 5 % critical values from tables: 23 for 10 against 10, 127 for 20 against 20.
        assert_eq!(
            (quotients_outside(10, 10), quotients_outside(20, 20)),
            (Some(23), Some(127))
        );
    }

    #[test]
    fn approximate_ranks_match_printed_tables() {
        // 21 · 20 / 2 − 1.96 · √(21·20·42/12) − 0.5 = 210 − 1.96 · 38.34 − 0.5 = 134.35. Tables also list 134.
        assert_eq!(quotients_outside(&[(21, 20)]), Some(134));
    }

    #[test]
    fn differences_between_pairs_cancel_out() {
        // The first takes twice as long under each of six seeds. The times of the seeds differ by a factor of up to a thousand.
        let seeds: Vec<([f64; 1], [f64; 1])> = (0..6)
            .map(|seed| ([2.0 * 4f64.powi(seed)], [4f64.powi(seed)]))
            .collect();
        let pairs: Vec<(&[f64], &[f64])> = seeds.iter().map(|(a, b)| (a.as_slice(), b.as_slice())).collect();
        let estimate = |pairs: &[(&[f64], &[f64])]| hodges_lehmann_ratio_within(pairs).unwrap();
        let interval = estimate(&pairs).interval.unwrap();
        assert_eq!(
            (estimate(&pairs).value, interval.low, interval.high),
            (2.0, 2.0, 2.0)
        );
        assert_eq!(estimate(&pairs[..5]).interval, None, "2 of 2⁵ is more than 5 %");
        let pooled = |pick: fn(&([f64; 1], [f64; 1])) -> f64| seeds.iter().map(pick).collect::<Vec<_>>();
        assert!(ends(&pooled(|seed| seed.0[0]), &pooled(|seed| seed.1[0])).0 < 1.0);
        assert_eq!(hodges_lehmann_ratio_within(&[]), None);
    }

    #[test]
    fn invalid_values_have_no_ratio() {
        assert_eq!(hodges_lehmann_ratio(&[], &[1.0]), None);
        assert_eq!(hodges_lehmann_ratio(&[1.0], &[0.0]), None);
        assert_eq!(hodges_lehmann_ratio(&[-1.0], &[1.0]), None);
        assert_eq!(hodges_lehmann_ratio(&[f64::INFINITY], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn nth_quotient_matches_sorting(
            numerator in proptest::collection::vec(0.1f64..10.0, 1..12),
            denominator in proptest::collection::vec(0.1f64..10.0, 1..12), at in any::<proptest::sample::Index>(),
        ) {
            let mut all: Vec<f64> = numerator.iter().flat_map(|n| denominator.iter().map(move |d| n / d)).collect();
            all.sort_by(f64::total_cmp);
            let at = at.index(all.len());
            let sorted = |mut values: Vec<f64>| { values.sort_by(f64::total_cmp); values };
            let quotients = Quotients { numerator: sorted(numerator), denominator: sorted(denominator) };
            prop_assert_eq!(nth_quotient(&[quotients], at as u64), all[at]);
        }

        #[test]
        fn interval_excludes_one_exactly_if_the_test_rejects(
            first in proptest::collection::vec(0.5f64..2.0, 4..10), second in proptest::collection::vec(0.5f64..3.0, 4..10),
        ) {
            let (low, high) = ends(&first, &second);
            let p = mann_whitney(&first, &second).unwrap().p;
            prop_assert_eq!(low > 1.0 || high < 1.0, p <= 0.05, "{} {} {}", low, high, p);
        }

        #[test]
        fn swapping_the_samples_gives_the_reciprocal(
            first in proptest::collection::vec(0.5f64..2.0, 4..10), second in proptest::collection::vec(0.5f64..3.0, 4..10),
        ) {
            let (there, back) = (ends(&first, &second), ends(&second, &first));
            prop_assert!((there.0 * back.1 - 1.0).abs() < 1e-12 && (there.1 * back.0 - 1.0).abs() < 1e-12);
        }
    }
}
