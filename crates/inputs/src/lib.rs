//! Readers of data sets, tokenizers and checkpoints, from bytes to values on the host.
//!
//! This crate does not link burn, because `mantissa-runner`, which must not link burn, depends on it.

mod contents;
pub mod data;
mod inputs;
pub mod weights;

pub use inputs::Inputs;
