//! Models, weights, datasets and tasks: what a worker process executes.
//!
//! [`run`] takes one cell and gives back what was measured; summaries are made from that elsewhere.

mod outcome;

pub use outcome::{AllocatorBytes, Inputs, Measured, Observer, Outcome, Phase, Progress, Share, WorkloadError};
