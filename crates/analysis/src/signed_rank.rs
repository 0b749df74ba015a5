//! Wilcoxon signed-rank test of two settings under the same seeds or on the same inputs.

use crate::{Estimate, Interval, binomial_half, normal, ranks::midranks};

/// Maximum number of differences for which the p-value is exact. `f64` represents the number of choices of signs, 2⁴⁰, exactly.
const MAX_EXACT_PAIRS: usize = 40;

/// Comparison of paired values.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// Hodges–Lehmann estimate of the difference, first − second: the median of the means of all pairs of differences, each difference also
    /// paired with itself (Hodges and Lehmann 1963). Its interval contains the shifts that the signed-rank test does not reject at 5 %.
    /// An interval requires at least six pairs, because with fewer pairs the test cannot reject any shift.
    pub difference: Estimate,
    /// Two-sided p-value of Wilcoxon's signed-rank test.
    pub p: f64,
}

/// Tests whether paired values differ (Wilcoxon 1945, doi:10.2307/3001968). Returns `None` if the slices differ in length or are empty, or
/// if a difference is not finite.
///
/// The test excludes pairs of equal values, as Wilcoxon does; the estimate includes them. With at most 40 unequal pairs, the p-value is
/// exact, also with ties. With more, it comes from the normal approximation. The memory is proportional to the square of the number of
/// pairs.
pub fn paired(first: &[f64], second: &[f64]) -> Option<Paired> {
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let finite = differences.iter().all(|difference| difference.is_finite());
    if first.len() != second.len() || first.is_empty() || !finite {
        return None;
    }
    Some(Paired {
        difference: hodges_lehmann_difference(&differences),
        p: signed_rank(&differences),
    })
}

fn hodges_lehmann_difference(differences: &[f64]) -> Estimate {
    let mut means: Vec<f64> = (0..differences.len())
        .flat_map(|i| (0..=i).map(move |j| f64::midpoint(differences[i], differences[j])))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let last = means.len() - 1;
    Estimate {
        value: f64::midpoint(means[last / 2], means[means.len() / 2]),
        interval: means_outside(differences.len()).map(|outside| Interval {
            low: means[outside],
            high: means[last - outside],
        }),
        n: differences.len() as u64,
        method: "difference, Hodges–Lehmann",
    }
}

/// Returns the number of means beyond each end of the interval. It is the largest c with P(W ≤ c) ≤ 2.5 %, where W is the signed-rank
/// statistic without a shift.
fn means_outside(n: usize) -> Option<usize> {
    let tail = (1.0 - crate::CONFIDENCE) / 2.0;
    if binomial_half::cdf(0, n as u64) > tail {
        return None;
    }
    if n > MAX_EXACT_PAIRS {
        let count = n as f64;
        let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        return Some((count * (count + 1.0) / 4.0 - crate::estimate::Z * deviation - 0.5) as usize);
    }
    let counts = sign_counts(&(1..=n).collect::<Vec<_>>());
    let total: f64 = counts.iter().sum();
    let mut below = 0.0;
    let outside = counts.iter().take_while(|count| {
        below += **count;
        below <= tail * total
    });
    outside.count().checked_sub(1)
}

fn signed_rank(differences: &[f64]) -> f64 {
    let unequal: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|difference| *difference != 0.0)
        .collect();
    let sizes: Vec<f64> = unequal.iter().map(|difference| difference.abs()).collect();
    let (ranks, ties) = midranks(&sizes);
    let positive = |(difference, rank): (&f64, &f64)| if *difference > 0.0 { *rank } else { 0.0 };
    let observed: f64 = unequal.iter().zip(&ranks).map(positive).sum();
    let n = unequal.len() as f64;
    if unequal.len() <= MAX_EXACT_PAIRS {
        // Doubled midranks are integers.
        let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank) as usize).collect();
        let counts = sign_counts(&doubled);
        let at = (2.0 * observed) as usize;
        let (below, above): (f64, f64) = (counts[..=at].iter().sum(), counts[at..].iter().sum());
        return (2.0 * below.min(above) / counts.iter().sum::<f64>()).min(1.0);
    }
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties.cubes / 48.0;
    let distance = (observed - n * (n + 1.0) / 4.0).abs();
    (2.0 * normal::upper_tail(distance / variance.sqrt())).min(1.0)
}

/// Counts the choices of signs by the sum of the positive ranks: the entry `s` is the number of choices with sum `s`.
fn sign_counts(ranks: &[usize]) -> Vec<f64> {
    let mut counts = vec![0.0; ranks.iter().sum::<usize>() + 1];
    counts[0] = 1.0;
    for &rank in ranks {
        for sum in (rank..counts.len()).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_differences(differences: &[f64]) -> Paired {
        paired(differences, &vec![0.0; differences.len()]).unwrap()
    }

    #[test]
    fn six_equal_signs_have_a_p_value_of_one_in_32() {
        let found = from_differences(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((found.p, found.difference.value), (2.0 / 64.0, 3.5));
        assert_eq!(found.difference.interval, Some(Interval { low: 1.0, high: 6.0 }));
    }

    #[test]
    fn five_pairs_cannot_reject_any_shift() {
        let found = from_differences(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((found.p, found.difference.interval), (2.0 / 32.0, None));
    }

    #[test]
    fn ties_are_exact_and_equal_pairs_are_excluded() {
        // The sizes 1 1 2 have the ranks 1.5 1.5 3. With the signs + + −, the positive ranks sum to 3. Of 8 choices of signs, 5 sum to 3 or
        // less, and 5 to 3 or more.
        let found = from_differences(&[0.0, 1.0, 1.0, -2.0]);
        assert_eq!(found.p, 1.0);
        // With the signs + + +, the positive ranks sum to 6, as in one choice of 8: p = 2 · 1/8.
        assert_eq!(from_differences(&[0.0, 1.0, 1.0, 2.0]).p, 0.25);
    }

    #[test]
    fn critical_values_match_printed_tables() {
        // Two-sided critical values at 5 %: n = 6: 0, 8: 3, 10: 8, 20: 52.
        assert_eq!(
            [6, 8, 10, 20].map(means_outside),
            [Some(0), Some(3), Some(8), Some(52)]
        );
        assert_eq!(means_outside(41), Some(278), "430.5 − 1.96 · 77.3 − 0.5");
    }

    #[test]
    fn equal_pairs_have_a_p_value_of_1() {
        assert_eq!(from_differences(&[0.0; 8]).p, 1.0);
        assert_eq!(from_differences(&[0.0; 60]).p, 1.0);
        assert_eq!(paired(&[1.0], &[]), None);
        assert_eq!(paired(&[], &[]), None);
        assert_eq!(paired(&[f64::NAN], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn interval_excludes_zero_exactly_if_the_test_rejects(
            differences in proptest::collection::vec(-1.0f64..1.5, 6..25),
        ) {
            let found = from_differences(&differences);
            prop_assert_eq!(!found.difference.interval.unwrap().contains(0.0), found.p <= 0.05);
        }
    }
}
