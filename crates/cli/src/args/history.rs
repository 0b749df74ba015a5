//! Arguments of `mantissa history`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HISTORY_EXAMPLES: &str = "\
Examples:
  mantissa gate reports/change --baseline main --append && mantissa history
  mantissa history baselines/history.jsonl --page trends.html --parquet history.parquet

Exit codes:
  0 success, with or without changes; 2 the history cannot be read";

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// History written by `mantissa gate --append`
    ///
    /// [default: baselines/history.jsonl]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Policy file with regression thresholds
    ///
    /// [default: `gate.toml` next to the history, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Write a page with plots of the changes and a table of all trends
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
    /// Write the history as Parquet, one row per run, cell and metric
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    /// Print the trends as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
