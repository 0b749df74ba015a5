//! Noise fence: size of the usual changes of a cell's metric between runs.

use crate::{Sample, Scale, welch::logarithms};

/// Minimum number of runs for a fence: eight runs have seven changes, which is enough for quartiles.
pub const FENCE_MIN_RUNS: usize = 8;

/// Maximum number of runs, as in rustc-perf. Older runs are ignored because the noise of a machine changes over time.
pub const FENCE_MAX_RUNS: usize = 30;

/// Computes the noise fence of a metric of a cell from its `history`, which has one median per run, oldest first. Changes up to the fence
/// are usual.
///
/// The fence is Q3 + 3·IQR of the absolute changes between consecutive runs: their third quartile plus three interquartile ranges (Tukey's
/// far fence, as in rustc-perf). On a [`Scale::Ratio`] it is a relative change (0.02 is a factor of 1.02), otherwise a difference. Real
/// changes in the history widen the fence only if they make up a quarter of all changes.
///
/// Returns `None` for fewer than [`FENCE_MIN_RUNS`] runs, or if a value is not finite or, on a ratio scale, not positive.
pub fn noise_fence(history: &[f64], scale: Scale) -> Option<f64> {
    let newest = &history[history.len().saturating_sub(FENCE_MAX_RUNS)..];
    if newest.len() < FENCE_MIN_RUNS {
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
    fn fence_matches_hand_calculation() {
        // The changes are 1 … 8. Their quartiles are 2.75 and 6.25, so the fence is 6.25 + 3·3.5 = 16.75.
        let history = [0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0];
        assert_eq!(noise_fence(&history, Scale::Difference), Some(16.75));
        let powers = history.map(f64::exp2);
        let ratio = noise_fence(&powers, Scale::Ratio).unwrap();
        assert!((ratio - (16.75f64.exp2() - 1.0)).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn single_step_does_not_widen_the_fence() {
        let steady = [1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0];
        let stepped = [1.0, 1.01, 1.0, 1.01, 1.0, 2.02, 2.0, 2.02, 2.0];
        let fence = |history: &[f64]| noise_fence(history, Scale::Ratio).unwrap();
        assert!((fence(&steady) - fence(&stepped)).abs() < 1e-9);
        assert_eq!(fence(&[3.0; 8]), 0.0);
    }

    #[test]
    fn fence_needs_eight_runs_and_uses_the_newest() {
        assert_eq!(noise_fence(&[1.0; 7], Scale::Ratio), None);
        let wild = (0..30).map(|i| if i % 2 == 0 { 1.0 } else { 9.0 });
        let long: Vec<f64> = wild.chain([2.0; 30]).collect();
        assert_eq!(noise_fence(&long, Scale::Ratio), Some(0.0));
    }

    #[test]
    fn zero_has_no_ratio_fence_and_nan_has_no_fence() {
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
