//! Size of LLaMA.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a LLaMA model, with the field names of its Hugging Face `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LlamaSize {
    /// Vocabulary size.
    pub vocab_size: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Width of the feed-forward layer.
    pub intermediate_size: u32,
    /// Transformer blocks.
    pub num_hidden_layers: u32,
    /// Attention heads.
    pub num_attention_heads: u32,
    /// Key and value heads, each shared by neighbouring query heads; divides `num_attention_heads`.
    pub num_key_value_heads: u32,
    /// Width of a head; even.
    pub head_dim: u32,
    /// Maximum sequence length in tokens.
    pub max_position_embeddings: u32,
    /// Epsilon of the norms.
    pub rms_norm_eps: f64,
    /// Base of the frequencies of the rotary embeddings.
    pub rope_theta: f64,
    /// Scaling of the rotary frequencies for long sequences, as in LLaMA 3.1; absent: no scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rope_scaling: Option<RopeScaling>,
    /// True if rotary embeddings rotate pairs of neighbouring elements, as in Meta's own checkpoints and llama2.c.
    /// False if they rotate elements of the first half of a head with those of the second half.
    pub rope_interleaved: bool,
    /// True if the output layer shares the weights of the token embedding.
    pub tie_word_embeddings: bool,
}

impl LlamaSize {
    /// `Llama-2-7b`: 6.7 billion parameters.
    pub const LLAMA2_7B: Self = Self {
        vocab_size: 32_000,
        hidden_size: 4096,
        intermediate_size: 11_008,
        num_hidden_layers: 32,
        num_attention_heads: 32,
        num_key_value_heads: 32,
        head_dim: 128,
        max_position_embeddings: 4096,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: None,
        rope_interleaved: false,
        tie_word_embeddings: false,
    };
}

/// Scaling of rotary frequencies of LLaMA 3.1 (`rope_type` `llama3`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RopeScaling {
    /// Divisor of the lowest frequencies.
    pub factor: f64,
    /// Number of rotations within the original length below which a frequency is divided by `factor`.
    pub low_freq_factor: f64,
    /// Number of rotations above which a frequency is not changed.
    pub high_freq_factor: f64,
    /// Original maximum sequence length.
    pub original_max_position_embeddings: u32,
}
