//! Arguments of `mantissa check-kernels`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CheckKernelsArguments {
    /// Repeat checks that are already recorded for this card and program
    ///
    /// By default, a kernel is checked once per card, driver and program.
    #[arg(long)]
    pub(crate) again: bool,
    /// Print the results as JSON lines instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
