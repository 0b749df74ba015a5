//! A trained model tested again with products in an emulated format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;

/// One test of a trained model with the products of some layers in a layout, and everything else in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormatTrial {
    /// The layout of operands and results of those products.
    pub layout: Layout,
    /// The only layer that has it; absent: all have.
    pub layer: Option<String>,
    /// Layers that compute in f32 instead, as `keep_f32` would have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Examples.
    pub examples: u64,
    /// Those predicted right.
    pub right: u64,
    /// Those that f32 predicts right and this does not.
    pub lost: u64,
    /// Those that this predicts right and f32 does not.
    pub won: u64,
}
