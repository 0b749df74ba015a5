//! Arguments of `mantissa report`.

use std::path::PathBuf;

use clap::Args;

use super::rendering::Rendering;

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Write one report that compares every run with the first one
    ///
    /// Settings are matched across the runs.
    #[arg(long, requires = "out", conflicts_with_all = ["tables", "single_file"])]
    pub(crate) side_by_side: bool,
    /// Print the report of each run as JSON and write nothing
    #[arg(long, conflicts_with_all = ["side_by_side", "tables", "single_file"])]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) rendering: Rendering,
    /// Write the report to this folder [default: the run folder]
    ///
    /// The reports of several runs go to subfolders named after the runs.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,
}
