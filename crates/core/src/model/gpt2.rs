//! Size of GPT-2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a GPT-2 model, with the field names of its Hugging Face `config.json`. The output layer shares the weights
/// of the token embedding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpt2Size {
    /// Vocabulary size.
    pub vocab_size: u32,
    /// Maximum sequence length in tokens.
    pub n_positions: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Transformer blocks.
    pub n_layer: u32,
    /// Attention heads; divides `n_embd`.
    pub n_head: u32,
    /// Width of the feed-forward layer.
    pub n_inner: u32,
    /// Epsilon of the norms.
    pub layer_norm_epsilon: f64,
    /// Dropout of the embeddings.
    pub embd_pdrop: f64,
    /// Dropout of attention weights.
    pub attn_pdrop: f64,
    /// Dropout after sub-layers.
    pub resid_pdrop: f64,
}

impl Gpt2Size {
    /// `gpt2`: 124 million parameters.
    pub const SMALL: Self = Self {
        vocab_size: 50_257,
        n_positions: 1024,
        n_embd: 768,
        n_layer: 12,
        n_head: 12,
        n_inner: 3072,
        layer_norm_epsilon: 1e-5,
        embd_pdrop: 0.1,
        attn_pdrop: 0.1,
        resid_pdrop: 0.1,
    };
}
