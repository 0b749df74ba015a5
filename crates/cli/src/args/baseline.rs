//! Arguments of `mantissa baseline`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Save the records of a run under a name
    ///
    /// Replaces the records with this name from the same machine, backend and profile.
    Save {
        /// Name of the baseline, e.g. `main`
        name: String,
        /// Run folder
        run: PathBuf,
        #[command(flatten)]
        location: BaselineLocation,
    },
    /// List the saved baselines
    List {
        #[command(flatten)]
        location: BaselineLocation,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the records saved under a name, as JSON
    Show {
        /// Name of the baseline
        name: String,
        /// Select only this machine, by its name in `list`
        #[arg(long)]
        machine: Option<String>,
        #[command(flatten)]
        location: BaselineLocation,
    },
    /// Delete the records saved under a name
    Drop {
        /// Name of the baseline
        name: String,
        /// Select only this machine, by its name in `list`
        #[arg(long)]
        machine: Option<String>,
        #[command(flatten)]
        location: BaselineLocation,
    },
}

/// Location of the baselines.
#[derive(Debug, Args)]
pub(crate) struct BaselineLocation {
    /// Folder of baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(crate) baselines: PathBuf,
}
