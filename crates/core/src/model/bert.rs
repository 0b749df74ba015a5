//! Size of BERT.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::norm_epsilon::{is_norm_epsilon, norm_epsilon};

/// Size of a BERT model, with the field names of its Hugging Face `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BertSize {
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Transformer blocks.
    pub num_hidden_layers: u32,
    /// Attention heads; divides `hidden_size`.
    pub num_attention_heads: u32,
    /// Width of the feed-forward layer.
    pub intermediate_size: u32,
    /// Maximum sequence length in tokens.
    pub max_position_embeddings: u32,
    /// Dropout after embeddings and sub-layers, and before the classifier.
    pub hidden_dropout_prob: f64,
    /// Dropout of attention weights.
    pub attention_probs_dropout_prob: f64,
    /// Epsilon of the layer norms.
    #[serde(default = "norm_epsilon", skip_serializing_if = "is_norm_epsilon")]
    pub layer_norm_eps: f64,
}

impl BertSize {
    /// `bert-base-uncased`: 109 million parameters with its vocabulary of 30,522.
    pub const BASE: Self = Self {
        hidden_size: 768,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        intermediate_size: 3072,
        max_position_embeddings: 512,
        hidden_dropout_prob: 0.1,
        attention_probs_dropout_prob: 0.1,
        layer_norm_eps: norm_epsilon(),
    };
}
