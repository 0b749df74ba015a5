//! Detection of the end of a warm-up.

use crate::mann_whitney;

/// Number of run times in a window. It is large enough for a Mann–Whitney test of two windows to detect a shift of two standard deviations.
const WINDOW: usize = 8;

/// Maximum relative difference of the medians of two windows that count as settled even if the difference is significant. Smaller differences
/// can add up over many windows: [`crate::SerialDependence::drifts`] detects a drift of 1 % or more among the samples.
const MAX_DIFFERENCE: f64 = 0.01;

/// Significance level of the test of two windows. For times that have settled, it is the share of tests that find a difference by chance, after
/// which the warm-up needs another window.
const LEVEL: f64 = 0.05;

/// Returns true if run times have settled. The medians of the newest eight times and of the eight times before them must differ by at most
/// 1 %, or the difference must not be significant (Mann–Whitney at 5 %). Returns false for fewer than sixteen times.
///
/// `seconds` is in chronological order, and only the newest sixteen times count. Call the function after every eighth time. If it is called
/// after each time, some pair of windows soon looks equal by chance.
pub fn settled(seconds: &[f64]) -> bool {
    let Some(start) = seconds.len().checked_sub(2 * WINDOW) else {
        return false;
    };
    let (before, newest) = seconds[start..].split_at(WINDOW);
    let Some(test) = mann_whitney(before, newest) else {
        return false;
    };
    let (before, newest) = (median_of_window(before), median_of_window(newest));
    (newest - before).abs() <= MAX_DIFFERENCE * before.abs() || test.p > LEVEL
}

fn median_of_window(window: &[f64]) -> f64 {
    let mut sorted = window.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[WINDOW / 2 - 1], sorted[WINDOW / 2])
}

/// State of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUpState {
    /// Not settled yet.
    Warming,
    /// Settled. Sampling may begin.
    Settled,
    /// The maximum number of runs was reached before the times settled. Sampling begins anyway, and the record contains a note.
    GaveUp,
}

/// Warm-up in progress. Call [`push`](Self::push) with each run time.
#[derive(Debug, Clone)]
pub struct WarmUp {
    seconds: Vec<f64>,
    max_runs: usize,
}

impl WarmUp {
    /// Starts a warm-up of at most `max_runs` runs.
    pub fn new(max_runs: usize) -> Self {
        Self {
            seconds: Vec::new(),
            max_runs,
        }
    }

    /// Adds a run time in seconds and returns the state of the warm-up.
    pub fn push(&mut self, seconds: f64) -> WarmUpState {
        self.seconds.push(seconds);
        if self.seconds.len().is_multiple_of(WINDOW) && settled(&self.seconds) {
            WarmUpState::Settled
        } else if self.seconds.len() >= self.max_runs {
            WarmUpState::GaveUp
        } else {
            WarmUpState::Warming
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn runs_until_settled(seconds: impl Iterator<Item = f64>) -> (usize, WarmUpState) {
        let mut warm_up = WarmUp::new(200);
        let end = seconds
            .map(|seconds| warm_up.push(seconds))
            .position(|state| state != WarmUpState::Warming);
        let runs = end.unwrap() + 1;
        let last = if runs < 200 {
            WarmUpState::Settled
        } else {
            WarmUpState::GaveUp
        };
        (runs, last)
    }

    #[test]
    fn equal_times_settle_at_two_windows() {
        assert_eq!(
            runs_until_settled(std::iter::repeat(1.0)),
            (16, WarmUpState::Settled)
        );
    }

    #[test]
    fn decaying_times_settle_after_the_decay() {
        // The times decay from 3 to 1 with a time constant of ten runs. They settle when two consecutive windows differ by less than 1 %.
        let decay = (0..).map(|i| 1.0 + 2.0 * (-f64::from(i) / 10.0).exp());
        let (runs, state) = runs_until_settled(decay);
        assert_eq!(state, WarmUpState::Settled);
        assert!((56..=80).contains(&runs), "{runs}");
    }

    #[test]
    fn slow_first_run_does_not_delay_settling() {
        let compiled = std::iter::once(30.0).chain(std::iter::repeat(1.0));
        assert_eq!(runs_until_settled(compiled), (16, WarmUpState::Settled));
    }

    #[test]
    fn falling_times_reach_the_maximum_number_of_runs() {
        let falling = (0..).map(|i| 10.0 * 0.99f64.powi(i));
        assert_eq!(runs_until_settled(falling), (200, WarmUpState::GaveUp));
    }

    #[test]
    fn noise_settles_at_once_in_ninety_percent() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let at_once = (0..300)
            .filter(|_| settled(&(0..16).map(|_| random.random::<f64>()).collect::<Vec<_>>()))
            .count();
        assert!(at_once >= 270, "{at_once} of 300");
    }

    #[test]
    fn nan_and_too_few_times_do_not_settle() {
        assert!(!settled(&[f64::NAN; 16]));
        assert!(!settled(&[1.0; 15]));
    }
}
