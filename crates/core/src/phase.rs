//! Phases of a cell.

/// What a workload is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reading data, building the model.
    Prepare,
    /// Compiling kernels, touching every shape once.
    WarmUp,
    /// What is timed.
    Measure,
    /// Testing the result.
    Evaluate,
}
