//! Whether values of one sample tend to be larger than those of another.

use crate::{
    normal,
    ranks::{Ties, midranks},
};

/// Up to this many values in both samples together the null distribution is counted, ties included; 40 choose 20 still
/// counts exactly in an `f64`, and the normal law is good to a tenth of a point beyond.
const COUNT_UP_TO: usize = 40;

/// A two-sided Mann–Whitney test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the first sample's value is larger, ties counting half.
    pub u: f64,
    /// How often samples from one distribution are told apart as well as these, or better.
    pub p: f64,
}

/// Compares two samples by the ranks of their values (Mann and Whitney 1947, doi:10.1214/aoms/1177730491).
///
/// With few values the p-value is counted over all ways to deal the pooled values to the samples, so that it is exact
/// with ties too; with many it comes from the normal law with tie and continuity corrections. Absent if a sample is empty
/// or a value is not finite.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    let pooled: Vec<f64> = first.iter().chain(second).copied().collect();
    if first.is_empty() || second.is_empty() || !pooled.iter().all(|value| value.is_finite()) {
        return None;
    }
    let (ranks, ties) = midranks(&pooled);
    let (n, m) = (first.len() as f64, second.len() as f64);
    let u = ranks[..first.len()].iter().sum::<f64>() - n * (n + 1.0) / 2.0;
    let p = if pooled.len() <= COUNT_UP_TO {
        dealt(&ranks, first.len())
    } else {
        approximate(u, n, m, ties)
    };
    Some(MannWhitney { u, p })
}

/// The smallest two-sided p-value that samples of these sizes can give: 2 / C(n + m, n). Three against three cannot
/// reach 0.05 whatever was measured; four against four can (0.029).
pub fn smallest_p(n: usize, m: usize) -> f64 {
    let ways = (1..=n.min(m)).fold(1.0, |ways, i| ways * (n.max(m) + i) as f64 / i as f64);
    (2.0 / ways).min(1.0)
}

/// Counts the deals of all ranks, of which the first `taken` were dealt to the first sample, by their sum of ranks.
fn dealt(ranks: &[f64], taken: usize) -> f64 {
    // Midranks are multiples of one half.
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank) as usize).collect();
    let sums = doubled.iter().sum::<usize>() + 1;
    // ways[k][s]: sets of k ranks whose doubled sum is s.
    let mut ways = vec![vec![0.0; sums]; taken + 1];
    ways[0][0] = 1.0;
    for &rank in &doubled {
        for size in (1..=taken).rev() {
            let (fewer, these) = ways.split_at_mut(size);
            for sum in rank..sums {
                these[0][sum] += fewer[size - 1][sum - rank];
            }
        }
    }
    let observed = doubled[..taken].iter().sum::<usize>();
    let total: f64 = ways[taken].iter().sum();
    let below: f64 = ways[taken][..=observed].iter().sum();
    let above: f64 = ways[taken][observed..].iter().sum();
    (2.0 * below.min(above) / total).min(1.0)
}

fn approximate(u: f64, n: f64, m: f64, ties: Ties) -> f64 {
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties.cubes / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    (2.0 * normal::above(distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn p(first: &[f64], second: &[f64]) -> f64 {
        mann_whitney(first, second).unwrap().p
    }

    #[test]
    fn three_against_three_that_are_apart_give_a_tenth() {
        let test = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!(test.u, 0.0);
        assert!((test.p - 0.1).abs() < 1e-12, "2 of the 20 deals");
        assert!((smallest_p(3, 3) - 0.1).abs() < 1e-12);
        assert!((smallest_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(smallest_p(0, 4), 1.0);
    }

    #[test]
    fn ties_are_counted_and_not_guessed() {
        // Ranks 1, 2.5 | 2.5, 4. Of the 6 deals of two, sums 3.5 3.5 5 5 6.5 6.5: 3.5 or less in 2, so p = 4/6.
        assert!((p(&[1.0, 2.0], &[2.0, 3.0]) - 4.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_say_nothing() {
        assert_eq!(p(&[2.0; 4], &[2.0; 5]), 1.0);
        assert_eq!(p(&[2.0; 40], &[2.0; 50]), 1.0);
    }

    #[test]
    fn one_against_one_says_nothing() {
        assert_eq!(p(&[1.0], &[2.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn counting_and_the_normal_law_meet() {
        let first: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.37 % 1.0).collect();
        let second: Vec<f64> = (0..20).map(|i| f64::from(i) * 0.61 % 1.0 + 0.15).collect();
        let counted = mann_whitney(&first, &second).unwrap();
        let (_, ties) = midranks(&[first, second].concat());
        assert!((counted.p - approximate(counted.u, 20.0, 20.0, ties)).abs() < 2e-3);
    }

    proptest! {
        #[test]
        fn the_order_of_the_samples_does_not_matter(
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
