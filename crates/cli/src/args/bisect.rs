//! Arguments of `mantissa bisect`.

use std::path::PathBuf;

use clap::Args;

use crate::watched_regression::WatchedRegression;

pub(super) const BISECT_EXAMPLES: &str = "\
Examples:
  mantissa bisect v1.0 main -- suites/kernels/matmul.toml --profile smoke -a precision=bf16-true -a size=256
  mantissa bisect v1.0 main --build 'cargo build --release -p trainer' --program target/release/trainer -- own.toml";

#[derive(Debug, Args)]
pub(crate) struct BisectArguments {
    /// Commit without the regression
    pub(crate) good: String,
    /// Later commit with the regression
    pub(crate) bad: String,
    /// Build each commit with this command, in the root of its work tree
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "cargo build --release -p mantissa"
    )]
    pub(crate) build: String,
    /// Program that the build command creates
    #[arg(long, value_name = "PATH", default_value = "target/release/mantissa")]
    pub(crate) program: PathBuf,
    /// Run N processes per program and commit
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=100))]
    pub(crate) repeats: u32,
    /// Policy file with regression thresholds
    ///
    /// [default: `baselines/gate.toml`, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Arguments of `mantissa run`
    ///
    /// They should select a single cell, as the command in a record does.
    #[arg(last = true, required = true, value_name = "ARGUMENTS OF RUN")]
    pub(crate) run: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BisectStepArguments {
    #[arg(long)]
    pub(crate) build: String,
    #[arg(long)]
    pub(crate) program: PathBuf,
    #[arg(long)]
    pub(crate) repeats: u32,
    #[arg(long)]
    pub(crate) policy: Option<PathBuf>,
    /// Program of the good commit
    #[arg(long)]
    pub(crate) good: PathBuf,
    /// Folder for the runs
    #[arg(long)]
    pub(crate) runs: PathBuf,
    /// Regression at the bad commit, as `CELL:METRIC` or `CELL:`
    #[arg(long, required = true)]
    pub(crate) watch: Vec<WatchedRegression>,
    #[arg(last = true)]
    pub(crate) run: Vec<String>,
}
