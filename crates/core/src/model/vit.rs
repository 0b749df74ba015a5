//! Size of vision transformers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::norm_epsilon::{is_norm_epsilon, norm_epsilon};

/// Size of a vision transformer, with the field names of its Hugging Face `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VitSize {
    /// Rows and columns of an image; a multiple of `patch_size`.
    pub image_size: u32,
    /// Rows and columns of a patch.
    pub patch_size: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Transformer blocks.
    pub num_hidden_layers: u32,
    /// Attention heads; divides `hidden_size`.
    pub num_attention_heads: u32,
    /// Width of the feed-forward layer.
    pub intermediate_size: u32,
    /// Dropout after embeddings and sub-layers.
    pub hidden_dropout_prob: f64,
    /// Dropout of attention weights.
    pub attention_probs_dropout_prob: f64,
    /// Epsilon of the layer norms.
    #[serde(default = "norm_epsilon", skip_serializing_if = "is_norm_epsilon")]
    pub layer_norm_eps: f64,
}

impl VitSize {
    /// `vit-base-patch16-224`: 86 million parameters.
    pub const BASE: Self = Self {
        image_size: 224,
        patch_size: 16,
        hidden_size: 768,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        intermediate_size: 3072,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        layer_norm_eps: norm_epsilon(),
    };
}
