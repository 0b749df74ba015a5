//! Arguments of `mantissa probe`.

use clap::Args;
use mantissa_core::Backend;

use super::backend::BackendChoice;

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// Compute on auto, cuda, vulkan or flex (the CPU) [default: auto]
    #[arg(long, env = "MANTISSA_BACKEND", hide_env_values = true)]
    backend: Option<BackendChoice>,
    /// Set the values of an axis, e.g. `fusion=on,off`
    #[arg(short = 'a', long = "axis", value_name = "AXIS=VALUE,…")]
    pub(crate) overrides: Vec<String>,
    /// Explain the instruction classes of the kernels
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print the records as JSON lines instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl ProbeArguments {
    /// Returns the backend if it was selected by name.
    pub(crate) fn named_backend(&self) -> Option<Backend> {
        self.backend.and_then(BackendChoice::named)
    }
}
