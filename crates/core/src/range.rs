//! Overflow, underflow and exponent range of the tensors of a training step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{format::Format, name::named};

named! {
    /// Role of a tensor in a training step.
    pub enum TensorClass ("tensor class") {
        /// Output of a layer.
        Activation = "activation",
        /// Gradient of a parameter or of the hidden states between two parts of the model, multiplied by the loss
        /// scale.
        Gradient = "gradient",
        /// Optimizer state of a parameter, such as a moment of its gradients.
        OptimizerState = "optimizer-state",
        /// Change of a parameter in a step, after rounding to the format of the parameter. A lost update rounds to 0.
        WeightUpdate = "weight-update",
    }
}

/// Value range of one tensor of one optimizer step in the format of the setting, compared with the same tensor of the
/// same step computed in a reference format, which is wider where possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorRange {
    /// Optimizer step, from 1.
    pub step: u64,
    /// Name of the layer or the parameter.
    pub layer: String,
    /// Role of the tensor.
    pub class: TensorClass,
    /// Format of the tensor.
    pub format: Format,
    /// Format of the reference tensor.
    #[serde(rename = "beside")]
    pub reference: Format,
    /// Element counts.
    #[serde(flatten)]
    pub counts: RangeCounts,
}

/// Element counts of a tensor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RangeCounts {
    /// Number of elements.
    pub elements: u64,
    /// Elements that are infinite or NaN.
    pub overflow: u64,
    /// Elements that are zero although the reference is not. Except for weight updates, counted only if the reference
    /// value is below the smallest normal value of the format.
    pub underflow: u64,
    /// Non-zero elements below the smallest normal value of the format.
    pub subnormal: u64,
    /// Exponent ⌊log₂|x|⌋ that corresponds to the first entry of `exponents`.
    pub lowest_exponent: i32,
    /// Histogram of exponents: number of finite, non-zero elements of the reference for each exponent, in ascending
    /// order.
    pub exponents: Vec<u64>,
}
