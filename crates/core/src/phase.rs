//! Phases of a cell.

/// Phase of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
