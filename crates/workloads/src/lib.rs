//! Models and tasks that a worker process executes.
//!
//! [`run`] runs one cell and returns the measurements. Other crates summarize them.

pub mod backend;
mod check;
mod estimate;
mod evaluate;
mod generate;
mod kernel;
mod models;
mod outcome;
mod own;
pub mod peer;
mod precompile;
mod sampling;
mod start;
mod subject;
mod timing;
mod train;
mod weights;

/// Version of burn that the models are written with.
pub use burn;

pub use backend::run;
pub use check::{KernelToCheck, check_kernel, kernels_to_check};
pub use estimate::{MemoryEstimate, estimate};
use mantissa_core::Phase;
use mantissa_inputs::{Inputs, data};
pub use mantissa_precision::Launches;
pub use outcome::{
    AllocatorBytes, Cublas, Measured, MemoryParts, NumericError, Observer, Outcome, Progress, ReadWeights,
    Share, Traffic, WorkloadError,
};
pub use own::{Examples, OwnModel, Workload};
pub use precompile::precompile;
