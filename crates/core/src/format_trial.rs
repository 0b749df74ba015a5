//! Tests of a trained model in emulated formats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;

/// Test of a trained model with the matmul-class operations of some layers in an emulated format, and everything else
/// in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormatTrial {
    /// Layout of the operands and results of those operations.
    pub layout: Layout,
    /// Layer in this layout; absent: all layers.
    pub layer: Option<String>,
    /// Layers that compute in f32 instead, as patterns of `keep_f32`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Number of test examples.
    pub examples: u64,
    /// Number of correct predictions.
    pub right: u64,
    /// Examples that are predicted correctly in f32 but not in this format.
    pub lost: u64,
    /// Examples that are predicted correctly in this format but not in f32.
    pub won: u64,
}
