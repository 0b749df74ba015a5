//! Models: their parameters by name and shape, and their forward passes.

mod distilbert;
mod kept;

pub(crate) use distilbert::{DistilBert, Seen, TextInput};
pub(crate) use kept::Kept;

/// A parameter of a model: name as in its published checkpoints, and how it starts without one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParameterSpec {
    /// Name in checkpoints.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Initial values.
    pub init: Init,
}

/// Initial values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Init {
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// The same, with the first row zero: the embedding of the padding token.
    NormalZeroFirstRow(f64),
    /// All zero.
    Zeros,
    /// All one.
    Ones,
}
