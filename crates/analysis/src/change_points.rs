//! Detection of change points in a history of runs.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::Sample;

/// Significance level of each change point.
pub const CHANGE_POINT_LEVEL: f64 = 0.005;

/// Number of permutations for each change point. A change point is significant at [`CHANGE_POINT_LEVEL`] if at most four permutations are as
/// extreme as the observed order, so the result does not depend on a single permutation.
const PERMUTATIONS: usize = 999;

/// Maximum number of runs. Older runs are ignored because the computing time is quadratic in the number of runs.
pub const CHANGE_POINT_MAX_RUNS: usize = 300;

/// Run at which the distribution of the values changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first run after the change.
    pub first: usize,
    /// Median since the previous change point, or since the beginning.
    pub before: f64,
    /// Median until the next change point, or until the end.
    pub after: f64,
    /// p-value: share of orders, permuted or observed, whose statistic is at least as large as the observed one.
    pub p: f64,
}

/// Finds the change points of a history, oldest run first, by E-divisive (Matteson and James 2014, doi:10.1080/01621459.2013.849605).
/// MongoDB detects regressions by this method (Daly et al. 2020, doi:10.1145/3358960.3375791). The history is cut where the energy distance
/// between the runs before and after the cut is largest. A permutation test then shuffles the runs within each part between earlier cuts. If
/// the new cut is significant, the search continues in all parts.
///
/// Unlike the method PELT, E-divisive needs neither a noise model nor a penalty per cut. A single disturbed run does not cause a cut. Even
/// a large change is detected only after about seven runs on either side. Values may be negative, such as logarithms, because only their
/// distances count. The caller must leave out missing values and keep track of their indices. Returns an empty list if a value is not
/// finite.
pub fn change_points(history: &[f64], seed: u64) -> Vec<ChangePoint> {
    if !history.iter().all(|value| value.is_finite()) {
        return Vec::new();
    }
    let skipped = history.len().saturating_sub(CHANGE_POINT_MAX_RUNS);
    let newest = &history[skipped..];
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut bounds = vec![0, newest.len()];
    while let Some(cut) = best_cut(newest, &bounds) {
        let Some(p) = significance(newest, &bounds, cut.statistic, &mut random) else {
            break;
        };
        found.push((cut.first, p));
        bounds.push(cut.first);
        bounds.sort_unstable();
    }
    found.sort_unstable_by_key(|(first, _)| *first);
    let middle =
        |from: usize, to: usize| Sample::new(newest[from..to].iter().copied()).map(|part| part.median());
    found
        .into_iter()
        .zip(bounds.windows(3))
        .filter_map(|((first, p), around)| {
            Some(ChangePoint {
                first: first + skipped,
                before: middle(around[0], first)?,
                after: middle(first, around[2])?,
                p,
            })
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    first: usize,
    /// Scaled energy distance between the values before and after the cut.
    statistic: f64,
}

/// Returns the cut with the largest statistic in any part between bounds.
fn best_cut(values: &[f64], bounds: &[usize]) -> Option<Cut> {
    let parts = bounds.windows(2).filter_map(|part| {
        let cut = find_cut(&values[part[0]..part[1]])?;
        Some(Cut {
            first: part[0] + cut.first,
            ..cut
        })
    });
    parts.reduce(|best, other| {
        if other.statistic > best.statistic {
            other
        } else {
            best
        }
    })
}

/// Computes the p-value of a cut, see [`ChangePoint::p`]. Returns `None` as soon as it exceeds the level (Besag and Clifford 1991,
/// doi:10.1093/biomet/78.2.301). For noise, this happens after a few permutations.
fn significance(values: &[f64], bounds: &[usize], observed: f64, random: &mut ChaCha8Rng) -> Option<f64> {
    let mut shuffled = values.to_vec();
    let mut at_least_as_large = 1;
    // The tolerance is needed because a permutation can add the same distances in another order.
    let observed = observed * (1.0 - 1e-9);
    for _ in 0..PERMUTATIONS {
        for part in bounds.windows(2) {
            shuffled[part[0]..part[1]].shuffle(random);
        }
        at_least_as_large +=
            usize::from(best_cut(&shuffled, bounds).is_some_and(|cut| cut.statistic >= observed));
        if at_least_as_large as f64 > CHANGE_POINT_LEVEL * (PERMUTATIONS + 1) as f64 {
            return None;
        }
    }
    Some(at_least_as_large as f64 / (PERMUTATIONS + 1) as f64)
}

/// Returns the cut of `values` with the largest nm/(n + m) · (2 E|X − Y| − E|X − X'| − E|Y − Y'|). E is the mean over independent draws X,
/// X' from the n values before the cut, and Y, Y' from the m values after it. Returns the first of equal cuts; `None` for fewer than two
/// values, or if all are equal.
fn find_cut(values: &[f64]) -> Option<Cut> {
    // Sums of pairwise distances: within the values before, between both sides, and within the values after.
    let (mut before, mut between) = (0.0, 0.0);
    let mut after: f64 = (0..values.len())
        .map(|at| sum_of_distances(values[at], &values[at..]))
        .sum();
    let mut best: Option<Cut> = None;
    for first in 1..values.len() {
        let moved = first - 1;
        let (to_earlier, to_later) = (
            sum_of_distances(values[moved], &values[..moved]),
            sum_of_distances(values[moved], &values[first..]),
        );
        before += to_earlier;
        after -= to_later;
        between += to_later - to_earlier;
        let (n, m) = (first as f64, (values.len() - first) as f64);
        let energy = 2.0 * (between / (n * m) - before / (n * n) - after / (m * m));
        let statistic = n * m / (n + m) * energy;
        if statistic > best.map_or(0.0, |best| best.statistic) {
            best = Some(Cut { first, statistic });
        }
    }
    best
}

/// Sums the distances of one value from others. Nearly all of the time is spent here. The eight partial sums are independent, so the
/// compiler can use SIMD.
fn sum_of_distances(value: f64, others: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (eights, remainder) = others.as_chunks::<8>();
    for eight in eights {
        for (lane, other) in lanes.iter_mut().zip(eight) {
            *lane += (other - value).abs();
        }
    }
    lanes.iter().sum::<f64>() + remainder.iter().map(|other| (other - value).abs()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    fn noise(seed: u64, runs: usize) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..runs).map(|_| StandardNormal.sample(&mut random)).collect()
    }

    fn firsts(history: &[f64]) -> Vec<usize> {
        change_points(history, 1)
            .iter()
            .map(|point| point.first)
            .collect()
    }

    #[test]
    fn cut_matches_hand_calculation() {
        // 0 0 | 3 3 3: six pairs between the sides have a distance of 3, all others 0. The statistic is 2·3/(2 + 3) · 2·3.
        let found = find_cut(&[0.0, 0.0, 3.0, 3.0, 3.0]).unwrap();
        assert_eq!(found.first, 2);
        assert!((found.statistic - 1.2 * 6.0).abs() < 1e-12);
    }

    #[test]
    fn step_is_found_at_its_first_run() {
        let mut history = noise(3, 60);
        history[37..].iter_mut().for_each(|value| *value += 6.0);
        let found = change_points(&history, 1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].first, 37);
        assert!(found[0].before.abs() < 1.0 && (found[0].after - 6.0).abs() < 1.0);
        assert_eq!(found[0].p, 0.001, "none of 999 permutations");
    }

    #[test]
    fn change_and_revert_are_two_change_points() {
        let mut history = noise(4, 90);
        history[30..60].iter_mut().for_each(|value| *value += 5.0);
        assert_eq!(firsts(&history), [30, 60]);
    }

    #[test]
    fn single_outlier_is_not_a_change_point() {
        let mut history = noise(5, 60);
        history[30] += 40.0;
        assert!(firsts(&history).is_empty());
    }

    #[test]
    fn noise_rarely_has_change_points() {
        // Five change points are expected by chance. The probability of fifteen or more is below 0.1 %.
        let called = (0..1_000)
            .filter(|seed| !firsts(&noise(100 + seed, 40)).is_empty())
            .count();
        assert!(called < 15, "{called}");
    }

    #[test]
    fn change_is_found_after_seven_runs() {
        let step = |after: usize| [vec![1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01], noise(6, after)].concat();
        let shifted: Vec<f64> = step(7)
            .iter()
            .enumerate()
            .map(|(at, v)| if at < 7 { *v } else { 9.0 + v / 100.0 })
            .collect();
        assert_eq!(firsts(&shifted), [7]);
        assert!(
            firsts(&shifted[..9]).is_empty(),
            "two runs after the change are too few"
        );
    }

    #[test]
    fn result_is_reproducible_and_empty_without_changes() {
        let mut history = noise(7, 50);
        history[25..].iter_mut().for_each(|value| *value += 2.0);
        assert_eq!(change_points(&history, 9), change_points(&history, 9));
        assert!(firsts(&[]).is_empty() && firsts(&[1.0]).is_empty());
        assert!(firsts(&[2.5; 50]).is_empty());
        assert!(firsts(&[1.0, f64::NAN, 2.0]).is_empty());
    }

    #[test]
    fn long_history_is_truncated_and_indices_are_kept() {
        let mut history = vec![0.0; CHANGE_POINT_MAX_RUNS + 100];
        history[CHANGE_POINT_MAX_RUNS..]
            .iter_mut()
            .for_each(|value| *value = 1.0);
        assert_eq!(firsts(&history), [CHANGE_POINT_MAX_RUNS]);
    }
}
