//! Phases of a cell.

/// Phase of a cell, in the order in which a cell first reaches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reads data and builds the model.
    Prepare,
    /// Compiles kernels and runs every shape once.
    WarmUp,
    /// Runs the steps that are timed.
    Measure,
    /// Tests the trained model, or compares the results with a reference.
    Evaluate,
}

impl Phase {
    /// Returns the name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::WarmUp => "warm-up",
            Self::Measure => "measure",
            Self::Evaluate => "evaluate",
        }
    }
}
