//! Arguments of `mantissa advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mantissa_report::{Goal, parse_error, parse_memory, parse_points};

#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Limit the loss of test accuracy, in percentage points [default: 1]
    ///
    /// The loss is against 32-true with matmul highest. The limit applies to the upper end of its confidence interval.
    #[arg(long, value_name = "POINTS", value_parser = parse_points, allow_hyphen_values = true)]
    pub(crate) accuracy_loss: Option<f64>,
    /// Limit the relative error of a kernel
    ///
    /// [default: no setting is recommended for kernels]
    #[arg(long, value_name = "MAX", value_parser = parse_error, allow_hyphen_values = true)]
    pub(crate) error: Option<f64>,
    /// Limit the peak memory, e.g. `24GiB` or `40GB` [default: no limit]
    #[arg(long, value_name = "LIMIT", value_parser = parse_memory, allow_hyphen_values = true)]
    pub(crate) memory: Option<f64>,
    /// Minimise time, energy or memory [default: time]
    #[arg(long, value_name = "GOAL", hide_possible_values = true)]
    pub(crate) minimise: Option<GoalChoice>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Quantity to minimise.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GoalChoice {
    Time,
    Energy,
    Memory,
}

impl From<GoalChoice> for Goal {
    fn from(choice: GoalChoice) -> Self {
        match choice {
            GoalChoice::Time => Self::Time,
            GoalChoice::Energy => Self::Energy,
            GoalChoice::Memory => Self::Memory,
        }
    }
}
