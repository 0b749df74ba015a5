//! Readers of checkpoints and their configuration files, and a writer of checkpoints.

mod checkpoint;
mod config;
mod fields;
mod format;
mod generation;
mod llama2c;
mod pytorch;
mod save;
mod tensors;

pub use checkpoint::{Checkpoint, Stored, WeightsError, read_weights, weight_files};
pub use config::{check_vocabulary_size, class_names, model_of};
pub(crate) use fields::{Fields, is_bert_tokenizer};
pub use generation::generation_note;
pub use save::save_weights;
pub(crate) use tensors::Mapped;

use mantissa_core::Values;

/// Name, shape and row-major values of a parameter.
pub type Weight = (String, Vec<usize>, Values);
