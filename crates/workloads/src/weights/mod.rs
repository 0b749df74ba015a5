//! Where parameters come from: a checkpoint of the user's, or seeded initialisation.

mod checkpoint;
mod config;
mod initial;
mod llama2c;
mod pytorch;
mod tensors;

pub use checkpoint::weights_in;
pub(crate) use checkpoint::{Checkpoint, Naming};
pub use config::model_of;
pub(crate) use initial::initial;
pub(crate) use tensors::Mapped;

/// Name, shape and row-major values of a parameter.
pub type Weight = (String, Vec<usize>, Vec<f32>);
