//! Verdict on the accuracy of a setting.

use mantissa_analysis::{Estimate, TOLERATED_LOSS};

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
