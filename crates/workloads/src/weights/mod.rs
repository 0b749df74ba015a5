//! Where parameters come from: a checkpoint of the user's, or seeded initialisation.

mod checkpoint;
mod config;
mod fields;
mod fit;
mod form;
mod generation;
mod initial;
mod llama2c;
mod pytorch;
mod tensors;

pub(crate) use checkpoint::Checkpoint;
pub use checkpoint::{weight_files, weights_in};
pub use config::model_of;
pub(crate) use config::{check_vocabulary_size, class_names};
pub(crate) use fields::{Fields, is_bert_tokenizer};
pub(crate) use fit::Naming;
pub(crate) use generation::generation_note;
pub(crate) use initial::initial;
pub(crate) use tensors::Mapped;

use mantissa_precision::Values;

/// Name, shape and row-major values of a parameter.
pub type Weight = (String, Vec<usize>, Values);
