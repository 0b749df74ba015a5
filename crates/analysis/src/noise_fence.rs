//! Noise fence: run-to-run variation of a cell's metric without any change.

use crate::{Sample, Scale, welch::logarithms};

/// Minimum number of runs for a fence: eight runs have seven changes, which is enough for quartiles.
pub const FENCE_FROM: usize = 8;

/// Maximum number of runs, as in rustc-perf. Older runs are ignored because the noise of a machine changes over time.
pub const FENCE_RUNS: usize = 30;

/// Computes the noise fence of a cell and metric: Q3 + 3·IQR of the absolute changes between consecutive runs (as rustc-perf does, after
/// Tukey's far fence). `history` has one median per run, oldest first. A change within the fence is usual for this cell. The fence is a
/// share of the value on a [`Scale::Ratio`] (0.02 is a factor of 1.02), otherwise a difference.
///
/// Returns `None` for fewer than [`FENCE_FROM`] runs, if a value is not finite, and on a ratio scale if a value is not positive. Real
/// changes in the history widen the fence only if they make up a quarter of all changes.
pub fn noise_fence(history: &[f64], scale: Scale) -> Option<f64> {
    let newest = &history[history.len().saturating_sub(FENCE_RUNS)..];
    if newest.len() < FENCE_FROM {
        return None;
    }
    let levels = match scale {
        Scale::Ratio => logarithms(newest)?,
        Scale::Difference => newest.to_vec(),
    };
    let changes = Sample::new(levels.windows(2).map(|pair| (pair[1] - pair[0]).abs()))?;
    let (first, third) = (changes.quantile(0.25), changes.quantile(0.75));
    let fence = third + 3.0 * (third - first);
    Some(match scale {
        Scale::Ratio => fence.exp_m1(),
        Scale::Difference => fence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_is_the_one_worked_by_hand() {
        // The changes are 1 … 8 with quartiles 2.75 and 6.25, so the fence is 6.25 + 3·3.5.
        let history = [0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0];
        assert_eq!(noise_fence(&history, Scale::Difference), Some(16.75));
        let powers = history.map(f64::exp2);
        let ratio = noise_fence(&powers, Scale::Ratio).unwrap();
        assert!((ratio - (16.75f64.exp2() - 1.0)).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn one_real_change_does_not_widen_it_and_values_that_never_move_have_none_to_speak_of() {
        let steady = [1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0];
        let stepped = [1.0, 1.01, 1.0, 1.01, 1.0, 2.02, 2.0, 2.02, 2.0];
        let fence = |history: &[f64]| noise_fence(history, Scale::Ratio).unwrap();
        assert!((fence(&steady) - fence(&stepped)).abs() < 1e-9);
        assert_eq!(fence(&[3.0; 8]), 0.0);
    }

    #[test]
    fn a_short_history_has_no_fence_and_of_a_long_one_the_end_counts() {
        assert_eq!(noise_fence(&[1.0; 7], Scale::Ratio), None);
        let wild = (0..30).map(|i| if i % 2 == 0 { 1.0 } else { 9.0 });
        let long: Vec<f64> = wild.chain([2.0; 30]).collect();
        assert_eq!(noise_fence(&long, Scale::Ratio), Some(0.0));
    }

    #[test]
    fn what_has_no_ratio_has_no_fence_of_one() {
        let mut history = [1.0; 9];
        history[4] = 0.0;
        assert_eq!(noise_fence(&history, Scale::Ratio), None);
        assert_eq!(
            noise_fence(&history, Scale::Difference),
            Some(1.0),
            "two of eight changes are a quarter"
        );
        history[4] = f64::NAN;
        assert_eq!(noise_fence(&history, Scale::Difference), None);
    }
}
