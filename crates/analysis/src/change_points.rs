//! Where in a history of runs something changed for good.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::Sample;

/// How seldom a history without changes may show one.
pub const CHANGE_POINT_LEVEL: f64 = 0.005;

/// Shuffles behind each change point: four of them may be as clear, so that luck in one does not decide.
const SHUFFLES: usize = 999;

/// Of a longer history the newest runs are looked at: time grows with the square of their number.
pub const CHANGE_POINT_RUNS: usize = 300;

/// A run from which on values are from another distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first run after the change.
    pub first: usize,
    /// Median since the change before it, or the beginning.
    pub before: f64,
    /// Median until the next change, or the end.
    pub after: f64,
    /// How often shuffled runs show a change as clear, the one observed counted in.
    pub p: f64,
}

/// The change points of a history, oldest run first: E-divisive (Matteson and James 2014, doi:10.1080/01621459.2013.849605), as MongoDB
/// finds regressions with it (Daly et al. 2020, doi:10.1145/3358960.3375791). A history is cut where the energy distance between both
/// sides is largest; whether that is more than chance is told by shuffling the runs between cuts; then the parts are cut.
///
/// It needs no law of the noise and no penalty, as PELT does; single runs that were disturbed do not cut it, since one value
/// alone is no distribution. A change takes some runs to show: about seven on either side, however large it is. Values may be
/// logarithms or not: what counts is how far runs are from each other. Absent values must be left out by the caller, who keeps
/// their indices. Empty if a value is not finite.
pub fn change_points(history: &[f64], seed: u64) -> Vec<ChangePoint> {
    if !history.iter().all(|value| value.is_finite()) {
        return Vec::new();
    }
    let skipped = history.len().saturating_sub(CHANGE_POINT_RUNS);
    let newest = &history[skipped..];
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut bounds = vec![0, newest.len()];
    while let Some(cut) = clearest_cut(newest, &bounds) {
        let Some(p) = significance(newest, &bounds, cut.clarity, &mut random) else {
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
    /// The scaled energy distance between both sides.
    clarity: f64,
}

/// Of all parts between bounds the cut with the largest energy distance.
fn clearest_cut(values: &[f64], bounds: &[usize]) -> Option<Cut> {
    let parts = bounds.windows(2).filter_map(|part| {
        let cut = cut(&values[part[0]..part[1]])?;
        Some(Cut {
            first: part[0] + cut.first,
            ..cut
        })
    });
    parts.reduce(|best, other| if other.clarity > best.clarity { other } else { best })
}

/// The share of shuffles that show as clear a cut, the observed one counted in. Absent as soon as it is above the level (Besag and
/// Clifford 1991, doi:10.1093/biomet/78.2.301): noise is told from the first few.
fn significance(values: &[f64], bounds: &[usize], observed: f64, random: &mut ChaCha8Rng) -> Option<f64> {
    let mut shuffled = values.to_vec();
    let mut as_clear = 1;
    // Sums of the same distances in another order.
    let observed = observed * (1.0 - 1e-9);
    for _ in 0..SHUFFLES {
        for part in bounds.windows(2) {
            shuffled[part[0]..part[1]].shuffle(random);
        }
        as_clear += usize::from(clearest_cut(&shuffled, bounds).is_some_and(|cut| cut.clarity >= observed));
        if as_clear as f64 > CHANGE_POINT_LEVEL * (SHUFFLES + 1) as f64 {
            return None;
        }
    }
    Some(as_clear as f64 / (SHUFFLES + 1) as f64)
}

/// The cut of `values` with the largest nm/(n + m) · (2 E|X − Y| − E|X − X'| − E|Y − Y'|), X being the n values before it and Y the m
/// after; of equal ones the first. Absent for fewer than two values, and for values that are all the same.
fn cut(values: &[f64]) -> Option<Cut> {
    // Sums over pairs of distances: within the values before, between both sides, within those after.
    let (mut before, mut between) = (0.0, 0.0);
    let mut after: f64 = (0..values.len()).map(|at| apart(values[at], &values[at..])).sum();
    let mut best: Option<Cut> = None;
    for first in 1..values.len() {
        let moved = first - 1;
        let (to_earlier, to_later) = (
            apart(values[moved], &values[..moved]),
            apart(values[moved], &values[first..]),
        );
        before += to_earlier;
        after -= to_later;
        between += to_later - to_earlier;
        let (n, m) = (first as f64, (values.len() - first) as f64);
        let energy = 2.0 * (between / (n * m) - before / (n * n) - after / (m * m));
        let clarity = n * m / (n + m) * energy;
        if clarity > best.map_or(0.0, |best| best.clarity) {
            best = Some(Cut { first, clarity });
        }
    }
    best
}

/// The sum of the distances of one value from others, in lanes that a processor adds at once: nearly all of the time goes here.
fn apart(value: f64, others: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (eights, rest) = others.as_chunks::<8>();
    for eight in eights {
        for (lane, other) in lanes.iter_mut().zip(eight) {
            *lane += (other - value).abs();
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|other| (other - value).abs()).sum::<f64>()
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
    fn the_cut_is_the_one_worked_by_hand() {
        // 0 0 | 3 3 3: between 6·3, so 2·2·3/5 · 3.
        let found = cut(&[0.0, 0.0, 3.0, 3.0, 3.0]).unwrap();
        assert_eq!(found.first, 2);
        assert!((found.clarity - 1.2 * 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_step_is_found_at_its_first_run_with_both_levels() {
        let mut history = noise(3, 60);
        history[37..].iter_mut().for_each(|value| *value += 6.0);
        let found = change_points(&history, 1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].first, 37);
        assert!(found[0].before.abs() < 1.0 && (found[0].after - 6.0).abs() < 1.0);
        assert_eq!(found[0].p, 0.001, "none of 999");
    }

    #[test]
    fn a_change_and_its_repair_are_two_changes() {
        let mut history = noise(4, 90);
        history[30..60].iter_mut().for_each(|value| *value += 5.0);
        assert_eq!(firsts(&history), [30, 60]);
    }

    #[test]
    fn one_disturbed_run_is_no_change() {
        let mut history = noise(5, 60);
        history[30] += 40.0;
        assert!(firsts(&history).is_empty());
    }

    #[test]
    fn noise_is_seldom_called_a_change() {
        // Five are to be expected; fifteen have a probability below one in 1,000.
        let called = (0..1_000)
            .filter(|seed| !firsts(&noise(100 + seed, 40)).is_empty())
            .count();
        assert!(called < 15, "{called}");
    }

    #[test]
    fn seven_runs_after_a_change_show_it() {
        let step = |after: usize| [vec![1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01], noise(6, after)].concat();
        let shifted: Vec<f64> = step(7)
            .iter()
            .enumerate()
            .map(|(at, v)| if at < 7 { *v } else { 9.0 + v / 100.0 })
            .collect();
        assert_eq!(firsts(&shifted), [7]);
        assert!(firsts(&shifted[..9]).is_empty(), "two could be chance");
    }

    #[test]
    fn the_same_seed_finds_the_same_and_what_cannot_change_does_not() {
        let mut history = noise(7, 50);
        history[25..].iter_mut().for_each(|value| *value += 2.0);
        assert_eq!(change_points(&history, 9), change_points(&history, 9));
        assert!(firsts(&[]).is_empty() && firsts(&[1.0]).is_empty());
        assert!(firsts(&[2.5; 50]).is_empty());
        assert!(firsts(&[1.0, f64::NAN, 2.0]).is_empty());
    }

    #[test]
    fn of_a_very_long_history_the_end_is_looked_at_and_indices_stay() {
        let mut history = vec![0.0; CHANGE_POINT_RUNS + 100];
        history[CHANGE_POINT_RUNS..]
            .iter_mut()
            .for_each(|value| *value = 1.0);
        assert_eq!(firsts(&history), [CHANGE_POINT_RUNS]);
    }
}
