//! Arguments of `mantissa list`.

use clap::Args;
use mantissa_core::Profile;

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Estimate the memory of each cell with a model, largest first
    ///
    /// The estimate is computed from the shapes. Nothing is run.
    #[arg(long)]
    pub(crate) memory: bool,
    /// List only this profile [default: all three]
    #[arg(long, requires = "memory")]
    pub(crate) profile: Option<Profile>,
}
