//! Verdict on the accuracy of a setting, and text of its change.

use mantissa_analysis::{Estimate, TOLERATED_LOSS};

use crate::units;

/// Verdict on the test accuracy of a setting relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccuracyVerdict {
    /// A loss of more than [`TOLERATED_LOSS`] is excluded.
    Kept,
    /// A loss of more than [`TOLERATED_LOSS`] is shown.
    Lost,
    /// The data exclude neither.
    Undecided,
}

impl AccuracyVerdict {
    /// Judges an accuracy loss, a share of the examples.
    pub fn of(loss: &Estimate) -> Self {
        match loss.interval {
            Some(interval) if interval.high <= TOLERATED_LOSS => Self::Kept,
            Some(interval) if interval.low > TOLERATED_LOSS => Self::Lost,
            _ => Self::Undecided,
        }
    }

    /// Returns the verdict as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Kept => "accuracy kept",
            Self::Lost => "accuracy lost",
            Self::Undecided => "accuracy undecided",
        }
    }
}

/// Formats a loss of accuracy as a change: `−0.1 points (−0.6 to 0.4)`.
pub(crate) fn accuracy_change(loss: &Estimate) -> String {
    /// Interval width in points below which a second decimal is significant.
    const TWO_DECIMALS_BELOW: f64 = 1.0;
    let width = loss.interval.map_or(0.0, |ends| 100.0 * (ends.high - ends.low));
    let decimals = if width < TWO_DECIMALS_BELOW { 2 } else { 1 };
    let points = |share: f64| {
        let text = format!("{:.decimals$}", -100.0 * share);
        match text.trim_start_matches('-') {
            digits if digits.bytes().all(|b| b == b'0' || b == b'.') => digits.to_owned(),
            _ => units::with_minus(&text),
        }
    };
    let value = points(loss.value);
    match loss.interval {
        Some(ends) => format!("{value} points ({} to {})", points(ends.high), points(ends.low)),
        None => format!("{value} points"),
    }
}
