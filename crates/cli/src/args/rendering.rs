//! Arguments that select the form of a report.

use clap::Args;

/// Form of a report. The default is an overview in the terminal and a page per suite.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Rendering {
    /// Print all tables instead of an overview
    ///
    /// A run of one suite prints its tables by default if they have at most 40 lines.
    #[arg(long)]
    pub(crate) tables: bool,
    /// Write one page, `report.html`, instead of a page per suite
    ///
    /// A run of one suite has one page by default.
    #[arg(long)]
    pub(crate) single_file: bool,
}
