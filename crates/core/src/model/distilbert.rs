//! Size of DistilBERT.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a DistilBERT model, with the field names of its Hugging Face `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DistilBertSize {
    /// Transformer blocks.
    pub n_layers: u32,
    /// Width of the residual stream.
    pub dim: u32,
    /// Attention heads; divides `dim`.
    pub n_heads: u32,
    /// Width of the feed-forward layer.
    pub hidden_dim: u32,
    /// Maximum sequence length in tokens.
    pub max_position_embeddings: u32,
    /// Dropout after embeddings and sub-layers.
    pub dropout: f64,
    /// Dropout of attention weights.
    pub attention_dropout: f64,
    /// Dropout before the classifier.
    pub seq_classif_dropout: f64,
}

impl DistilBertSize {
    /// `distilbert-base-uncased`: 66 million parameters with its vocabulary of 30,522.
    pub const BASE: Self = Self {
        n_layers: 6,
        dim: 768,
        n_heads: 12,
        hidden_dim: 3072,
        max_position_embeddings: 512,
        dropout: 0.1,
        attention_dropout: 0.1,
        seq_classif_dropout: 0.2,
    };
}
