//! Arguments of `mantissa plan`.

use clap::Args;

use super::selection::Selection;

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
