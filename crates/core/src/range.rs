//! What a number format did to the values of a training step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{format::Format, name::named};

named! {
    /// What a tensor is to a training step.
    pub enum TensorClass ("tensor class") {
        /// Output of a layer.
        Activation = "activation",
        /// Gradient of a parameter, or of the hidden states before a part of the model; times the loss scale.
        Gradient = "gradient",
        /// What an optimizer keeps of a parameter's gradients.
        OptimizerState = "optimizer-state",
        /// What a step changes of a parameter, as far as rounding to its format leaves it: one that became 0 was lost.
        WeightUpdate = "weight-update",
    }
}

/// One tensor of one optimizer step, in the format that the setting gives it, beside the same tensor of the same step in
/// a wider format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorRange {
    /// The optimizer step, from 1.
    pub step: u64,
    /// The layer or the parameter.
    pub layer: String,
    /// What it is.
    pub class: TensorClass,
    /// The format that it has.
    pub format: Format,
    /// The format of its twin.
    pub beside: Format,
    /// What was counted.
    #[serde(flatten)]
    pub counts: RangeCounts,
}

/// Elements of a tensor by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RangeCounts {
    /// All of them.
    pub elements: u64,
    /// Infinite or not a number.
    pub overflow: u64,
    /// Zero, where the twin is not, and below the smallest normal value of the format unless it is a change of a parameter.
    pub underflow: u64,
    /// Not zero, and below the smallest normal value of the format.
    pub subnormal: u64,
    /// ⌊log₂|x|⌋ of the first of `exponents`.
    pub lowest_exponent: i32,
    /// How many finite elements of the twin that are not zero have each exponent, upwards.
    pub exponents: Vec<u64>,
}
