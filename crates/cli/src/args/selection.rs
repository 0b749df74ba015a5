//! Options that select suites, cells, data and weights.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mantissa_core::{Backend, Profile};

use super::{backend::BackendChoice, data::Columns};

/// Inputs of a plan.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Suite files, or names of suites under `suites/`
    #[arg(value_name = "SUITE")]
    pub(crate) suites: Vec<PathBuf>,
    /// Select all suites under `suites/`
    ///
    /// Includes `suites/parallel`, which trains on several devices, only if this program was built with MPI (`--features mpi`).
    #[arg(long, conflicts_with = "suites")]
    pub(crate) all: bool,
    /// Replace the values of an axis of the suites
    ///
    /// Can be given once for each axis.
    #[arg(short = 'a', long = "axis", value_name = "AXIS=VALUE,…")]
    pub(crate) overrides: Vec<String>,
    /// Profile: smoke, standard or full
    ///
    /// It selects how much of the suites runs. [default: standard with a CUDA device, else smoke]
    #[arg(long, env = "MANTISSA_PROFILE", hide_env_values = true)]
    pub(crate) profile: Option<Profile>,
    /// Compute on auto, cuda, vulkan or flex (the CPU) [default: auto]
    #[arg(long, env = "MANTISSA_BACKEND", hide_env_values = true)]
    pub(crate) backend: Option<BackendChoice>,
    /// Select cells by workload or setting, e.g. `precision=16-mixed`
    ///
    /// A cell is selected if its workload or its setting contains the text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Read this data set [default: files of the suite, else synthetic data]
    ///
    /// Labelled reviews (an aclImdb folder; TSV, CSV or JSON lines), images (CIFAR-10's binary batches, MNIST's files, or one folder per class)
    /// or running text. Can be given once for each kind.
    #[arg(long, value_name = "PATH", env = "MANTISSA_DATA", hide_env_values = true)]
    pub(crate) data: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) columns: Columns,
    /// Start from these weights, in all workloads or in one
    ///
    /// Formats: safetensors, whole or in shards, `.pth`, llama2.c's `.bin`, or a folder in the layout of Hugging Face, whose `config.json` sets
    /// the size of the model. [default: files of the suite, else seeded initialisation]
    #[arg(
        long,
        value_name = "[WORKLOAD=]PATH",
        env = "MANTISSA_WEIGHTS",
        hide_env_values = true
    )]
    pub(crate) weights: Vec<String>,
    /// Initialise models from the seed of the cell (`random`)
    ///
    /// Also applies to workloads that require weights. `--weights` then only sets the size of the models, by a `config.json` or the header of a
    /// `.bin`.
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    pub(crate) init: Option<Init>,
}

impl Selection {
    /// Returns the backend if it was selected by name.
    pub(crate) fn named_backend(&self) -> Option<Backend> {
        self.backend.and_then(BackendChoice::named)
    }
}

/// Initialisation of a model.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Init {
    /// Random values from the seed of the cell.
    Random,
}
