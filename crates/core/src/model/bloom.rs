//! Size of BLOOM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a BLOOM model, with the field names of its Hugging Face `config.json`. The output layer shares the weights
/// of the token embedding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BloomSize {
    /// Vocabulary size.
    pub vocab_size: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Transformer blocks.
    pub n_layer: u32,
    /// Attention heads; divides `hidden_size`.
    pub n_head: u32,
    /// Epsilon of the norms.
    pub layer_norm_epsilon: f64,
    /// Dropout after sub-layers.
    pub hidden_dropout: f64,
    /// Dropout of attention weights.
    pub attention_dropout: f64,
}

impl BloomSize {
    /// `bloom-560m`: 559 million parameters.
    pub const BLOOM_560M: Self = Self {
        vocab_size: 250_880,
        hidden_size: 1024,
        n_layer: 24,
        n_head: 16,
        layer_norm_epsilon: 1e-5,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
    };
}
