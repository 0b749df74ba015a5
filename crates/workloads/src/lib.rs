//! Models and tasks that a worker process executes.
//!
//! [`run`] runs one cell (a model or a kernel under one setting) and returns its raw measurements. Other crates summarize them.

pub mod backend;
mod check;
mod estimate;
mod evaluate;
mod generate;
mod initial_state;
mod kernel;
mod kernel_allowlist;
mod kernel_folder;
mod model_and_data;
mod models;
mod operations;
mod outcome;
pub mod peer;
mod precompile;
mod sampling;
mod timing;
mod train;
mod user_workload;
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
    AllocatorBytes, Cause, Communication, Cublas, MemoryParts, NumericError, Observer, Outcome, Progress,
    ReadWeights, ReductionAccuracy, Share, TaskMeasurements, Traffic, WorkloadError,
};
pub use precompile::precompile;
pub use user_workload::{Examples, OwnModel, UserWorkload};
