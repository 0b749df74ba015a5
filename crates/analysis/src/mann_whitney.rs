//! Mann–Whitney test, which detects whether values of one sample tend to be larger than those of another.

use crate::{
    normal,
    ranks::{Ties, midranks},
};

/// Maximum number of values, over all samples, for which the null distribution is computed exactly, by counting. `f64` represents the
/// largest count, 40 choose 20, exactly. For more values, the normal approximation is accurate to 0.001.
const MAX_EXACT_VALUES: usize = 40;

/// Result of a two-sided Mann–Whitney test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Number of pairs (one value of each sample) in which the first sample's value is larger. A tie counts 1/2.
    pub u: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Compares two samples by the ranks of their values (Mann and Whitney 1947, doi:10.1214/aoms/1177730491).
///
/// With at most 40 values, the p-value is exact, also with ties: it counts the assignments of the pooled values to the samples that are at
/// least as extreme. With more values, it comes from the normal approximation with corrections for ties and continuity. Returns `None` if a
/// sample is empty or a value is not finite.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    mann_whitney_within(&[(first, second)])
}

/// Computes [`mann_whitney`] for several pairs of samples, such as one pair per seed. Values are compared only within a pair. The statistic
/// is the sum of the pairs' U. For pairs of equal size, this is the test of van Elteren 1960; for pairs of single values, the sign test.
/// Returns `None` without pairs.
pub fn mann_whitney_within(pairs: &[(&[f64], &[f64])]) -> Option<MannWhitney> {
    let ranked: Option<Vec<Ranked>> = pairs
        .iter()
        .map(|(first, second)| Ranked::new(first, second))
        .collect();
    let ranked = ranked.filter(|ranked| !ranked.is_empty())?;
    let values: usize = ranked.iter().map(|pair| pair.ranks.len()).sum();
    Some(MannWhitney {
        u: ranked.iter().map(Ranked::u).sum(),
        p: if values <= MAX_EXACT_VALUES {
            exact_p(&ranked)
        } else {
            approximate_p(&ranked)
        },
    })
}

/// Returns the smallest possible two-sided p-value for samples of `n` and `m` values: 2 / C(n + m, n). It is 0.1 for three against three
/// and 0.029 for four against four.
pub fn smallest_p(n: usize, m: usize) -> f64 {
    smallest_p_within(&[(n, m)])
}

/// Returns the smallest possible two-sided p-value for several pairs of samples: 2 / Π C(n + m, n), the product over the pairs.
pub(crate) fn smallest_p_within(sizes: &[(usize, usize)]) -> f64 {
    let ways = |&(n, m): &(usize, usize)| {
        (1..=n.min(m)).fold(1.0, |ways, i| ways * (n.max(m) + i) as f64 / i as f64)
    };
    (2.0 / sizes.iter().map(ways).product::<f64>()).min(1.0)
}

/// Ranks of two samples in the pooled values. The first `first` ranks are those of the first sample.
struct Ranked {
    ranks: Vec<f64>,
    ties: Ties,
    first: usize,
}

impl Ranked {
    fn new(first: &[f64], second: &[f64]) -> Option<Self> {
        let pooled: Vec<f64> = first.iter().chain(second).copied().collect();
        if first.is_empty() || second.is_empty() || !pooled.iter().all(|value| value.is_finite()) {
            return None;
        }
        let (ranks, ties) = midranks(&pooled);
        Some(Self {
            ranks,
            ties,
            first: first.len(),
        })
    }

    fn sizes(&self) -> (f64, f64) {
        (self.first as f64, (self.ranks.len() - self.first) as f64)
    }

    fn u(&self) -> f64 {
        let (n, _) = self.sizes();
        self.ranks[..self.first].iter().sum::<f64>() - n * (n + 1.0) / 2.0
    }

    fn variance(&self) -> f64 {
        let (n, m) = self.sizes();
        let all = n + m;
        n * m / 12.0 * (all + 1.0 - self.ties.cubes / (all * (all - 1.0)))
    }

    /// Returns the doubled ranks, which are integers because midranks are multiples of one half.
    fn doubled(&self) -> Vec<usize> {
        self.ranks.iter().map(|rank| (2.0 * rank) as usize).collect()
    }

    /// Counts the assignments of ranks to the first sample: entry `s` is the number with a doubled rank sum of `s`.
    fn assignment_counts(&self) -> Vec<f64> {
        let doubled = self.doubled();
        let sums = doubled.iter().sum::<usize>() + 1;
        // ways[k][s]: number of sets of k ranks whose doubled sum is s.
        let mut ways = vec![vec![0.0; sums]; self.first + 1];
        ways[0][0] = 1.0;
        for &rank in &doubled {
            for size in (1..=self.first).rev() {
                let (fewer, these) = ways.split_at_mut(size);
                for sum in rank..sums {
                    these[0][sum] += fewer[size - 1][sum - rank];
                }
            }
        }
        ways.swap_remove(self.first)
    }
}

/// Computes the exact p-value from the rank sums of all assignments within the pairs.
fn exact_p(pairs: &[Ranked]) -> f64 {
    let observed: usize = pairs
        .iter()
        .map(|pair| pair.doubled()[..pair.first].iter().sum::<usize>())
        .sum();
    let ways = pairs
        .iter()
        .map(Ranked::assignment_counts)
        .reduce(|all, these| convolve(&all, &these));
    let ways = ways.unwrap_or_default();
    let total: f64 = ways.iter().sum();
    let below: f64 = ways[..=observed].iter().sum();
    let above: f64 = ways[observed..].iter().sum();
    (2.0 * below.min(above) / total).min(1.0)
}

/// Convolves two distributions of counts. The result counts the sums of one value from each distribution.
pub(crate) fn convolve(first: &[f64], second: &[f64]) -> Vec<f64> {
    let mut ways = vec![0.0; first.len() + second.len() - 1];
    for (i, a) in first.iter().enumerate().filter(|(_, a)| **a != 0.0) {
        for (sum, b) in ways[i..].iter_mut().zip(second) {
            *sum += a * b;
        }
    }
    ways
}

fn approximate_p(pairs: &[Ranked]) -> f64 {
    let variance: f64 = pairs.iter().map(Ranked::variance).sum();
    if variance <= 0.0 {
        return 1.0;
    }
    let deviation = |pair: &Ranked| {
        let (n, m) = pair.sizes();
        pair.u() - n * m / 2.0
    };
    let distance = (pairs.iter().map(deviation).sum::<f64>().abs() - 0.5).max(0.0);
    (2.0 * normal::upper_tail(distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn p(first: &[f64], second: &[f64]) -> f64 {
        mann_whitney(first, second).unwrap().p
    }

    #[test]
    fn smallest_p_of_three_against_three_is_one_tenth() {
        let test = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!(test.u, 0.0);
        assert!((test.p - 0.1).abs() < 1e-12, "2 of the 20 assignments");
        assert!((smallest_p(3, 3) - 0.1).abs() < 1e-12);
        assert!((smallest_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(smallest_p(0, 4), 1.0);
    }

    #[test]
    fn p_value_is_exact_with_ties() {
        // The ranks are 1, 2.5 and 2.5, 4. The six assignments have the rank sums 3.5 3.5 5 5 6.5 6.5, so p = 2 · 2/6.
        assert!((p(&[1.0, 2.0], &[2.0, 3.0]) - 4.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_have_a_p_value_of_1() {
        assert_eq!(p(&[2.0; 4], &[2.0; 5]), 1.0);
        assert_eq!(p(&[2.0; 40], &[2.0; 50]), 1.0);
    }

    #[test]
    fn one_against_one_has_a_p_value_of_1() {
        assert_eq!(p(&[1.0], &[2.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn values_are_compared_only_within_pairs() {
        let single = |n: usize| mann_whitney_within(&vec![(&[2.0][..], &[1.0][..]); n]).unwrap().p;
        assert!((single(5) - 2.0 / 32.0).abs() < 1e-12 && (single(6) - 2.0 / 64.0).abs() < 1e-12);
        // One of the 6 · 6 assignments is as extreme as the observed one, and one is as extreme on the other side.
        let two: (&[f64], &[f64]) = (&[3.0, 4.0], &[1.0, 2.0]);
        let other: (&[f64], &[f64]) = (&[300.0, 400.0], &[100.0, 200.0]);
        let test = mann_whitney_within(&[two, other]).unwrap();
        assert_eq!(test.u, 8.0);
        assert!((test.p - 2.0 / 36.0).abs() < 1e-12, "{test:?}");
        assert_eq!(mann_whitney_within(&[]), None);
    }

    #[test]
    fn exact_and_approximate_p_values_agree() {
        let first: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.37 % 1.0).collect();
        let second: Vec<f64> = (0..20).map(|i| f64::from(i) * 0.61 % 1.0 + 0.15).collect();
        let counted = mann_whitney(&first, &second).unwrap();
        let ranked = Ranked::new(&first, &second).unwrap();
        assert!((counted.p - approximate_p(&[ranked])).abs() < 2e-3);
    }

    proptest! {
        #[test]
        fn swapping_the_samples_keeps_the_p_value(
            first in proptest::collection::vec((0u8..9).prop_map(f64::from), 1..9),
            second in proptest::collection::vec((0u8..9).prop_map(f64::from), 1..9),
        ) {
            let (there, back) = (mann_whitney(&first, &second).unwrap(), mann_whitney(&second, &first).unwrap());
            prop_assert!((there.p - back.p).abs() < 1e-12);
            prop_assert_eq!(there.u + back.u, (first.len() * second.len()) as f64);
            prop_assert!(there.p >= smallest_p(first.len(), second.len()) - 1e-12);
        }
    }
}
