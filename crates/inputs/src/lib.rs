//! Readers of data sets, tokenizers and checkpoints, from bytes to values on the host.
//!
//! This crate does not link burn, because the parent process reads the same files as the workers.

mod contents;
pub mod data;
mod inputs;
pub mod weights;

pub use inputs::Inputs;
