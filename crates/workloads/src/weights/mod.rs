//! Where parameters come from: a checkpoint of the user's, or seeded initialisation.

mod checkpoint;
mod initial;
mod llama2c;
mod pytorch;
mod tensors;

pub(crate) use checkpoint::{Checkpoint, Naming};
pub(crate) use initial::initial;

/// Name, shape and row-major values of a parameter.
pub(crate) type Weight = (String, Vec<usize>, Vec<f32>);
