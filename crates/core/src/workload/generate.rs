//! Text generation task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Model;

/// Text generation with a language model: a prefill of the prompt, then decoding token by token with a key-value cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GenerateTask {
    /// Model with its size.
    pub model: Model,
    /// Tokens of a prompt. Prompts are drawn at random from the seed of the cell.
    pub prompt_tokens: u32,
    /// Tokens generated after the prompt.
    pub new_tokens: u32,
    /// Sampling temperature; 0: greedy decoding.
    pub temperature: f64,
    /// Minimum number of generated texts.
    pub min_samples: u32,
    /// Maximum number of generated texts.
    pub max_samples: u32,
    /// Time in seconds after which no further text is started, once there are `min_samples` texts.
    pub max_seconds: f64,
    /// Target precision: sampling stops when half the width of the 95 % confidence interval of the median is within
    /// this share of the median.
    pub max_noise: f64,
}
