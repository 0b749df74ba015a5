//! Models and their sizes, with the field names of their published configurations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DatasetKind;

/// Architecture and size of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// DistilBERT for sequence classification (arXiv 1910.01108).
    Distilbert(DistilBertSize),
    /// BERT for sequence classification and masked language modelling (arXiv 1810.04805).
    Bert(BertSize),
    /// ResNet for small images (arXiv 1512.03385, section 4.2).
    Resnet(ResNetSize),
    /// ResNet for large images (arXiv 1512.03385, table 1; bottlenecks with their stride in the 3 × 3, "v1.5").
    ResnetImagenet(ImageNetResNetSize),
    /// Vision transformer (arXiv 2010.11929).
    Vit(VitSize),
    /// LLaMA (arXiv 2302.13971, 2307.09288, 2407.21783).
    Llama(LlamaSize),
    /// GPT-2.
    Gpt2(Gpt2Size),
    /// BLOOM (arXiv 2211.05100).
    Bloom(BloomSize),
    /// Model of the program that runs the suite.
    Own,
}

impl Model {
    /// Returns the name used in suites and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Distilbert(_) => "distilbert",
            Self::Bert(_) => "bert",
            Self::Resnet(_) => "resnet",
            Self::ResnetImagenet(_) => "resnet-imagenet",
            Self::Vit(_) => "vit",
            Self::Llama(_) => "llama",
            Self::Gpt2(_) => "gpt2",
            Self::Bloom(_) => "bloom",
            Self::Own => "own",
        }
    }

    /// Maximum number of layers of a model, larger than in any published model. Bounds the length of lists of layers.
    pub const MOST_LAYERS: u32 = 10_000;

    /// Returns the number of Transformer blocks, or of layers with weights.
    pub fn layers(&self) -> u32 {
        match self {
            Self::Distilbert(size) => size.n_layers,
            Self::Bert(size) => size.num_hidden_layers,
            Self::Resnet(size) => size.depth,
            Self::ResnetImagenet(size) => size.depth,
            Self::Vit(size) => size.num_hidden_layers,
            Self::Llama(size) => size.num_hidden_layers,
            Self::Gpt2(size) => size.n_layer,
            Self::Bloom(size) => size.n_layer,
            // Unknown: the program defines the model.
            Self::Own => 0,
        }
    }

    /// Returns true if attention is causal, which text generation requires.
    pub fn is_causal(&self) -> bool {
        matches!(self, Self::Llama(_) | Self::Gpt2(_) | Self::Bloom(_))
    }

    /// Returns the vocabulary size if it is part of the model size. The vocabulary of other models depends on their
    /// data.
    pub fn vocabulary(&self) -> Option<u32> {
        match self {
            Self::Llama(size) => Some(size.vocab_size),
            Self::Gpt2(size) => Some(size.vocab_size),
            Self::Bloom(size) => Some(size.vocab_size),
            _ => None,
        }
    }

    /// Returns true if the model accepts this kind of data.
    pub fn takes(&self, dataset: DatasetKind) -> bool {
        match self {
            Self::Resnet(_) | Self::ResnetImagenet(_) | Self::Vit(_) => dataset.has_images(),
            Self::Distilbert(_) => dataset.has_reviews(),
            // On running text, BERT predicts masked tokens and BLOOM the next token.
            Self::Bert(_) | Self::Bloom(_) => dataset.has_reviews() || dataset.is_running_text(),
            Self::Llama(_) | Self::Gpt2(_) => dataset.is_running_text(),
            Self::Own => dataset == DatasetKind::Own,
        }
    }

    /// Returns true if the inputs are images.
    pub fn sees_images(&self) -> bool {
        self.image_size().is_some()
    }

    /// Returns the height and width of the input images.
    pub fn image_size(&self) -> Option<u32> {
        match self {
            Self::Resnet(_) => Some(ResNetSize::IMAGE),
            Self::ResnetImagenet(size) => Some(size.image_size),
            Self::Vit(size) => Some(size.image_size),
            _ => None,
        }
    }

    /// Returns the maximum sequence length, if positions limit it.
    pub fn positions(&self) -> Option<u32> {
        match self {
            Self::Distilbert(size) => Some(size.max_position_embeddings),
            Self::Bert(size) => Some(size.max_position_embeddings),
            Self::Llama(size) => Some(size.max_position_embeddings),
            Self::Gpt2(size) => Some(size.n_positions),
            Self::Bloom(_) | Self::Resnet(_) | Self::ResnetImagenet(_) | Self::Vit(_) | Self::Own => None,
        }
    }

    /// Returns the dropout probability of attention weights; `None` for models without attention.
    pub fn attention_dropout(&self) -> Option<f64> {
        match self {
            Self::Distilbert(size) => Some(size.attention_dropout),
            Self::Bert(size) => Some(size.attention_probs_dropout_prob),
            Self::Vit(size) => Some(size.attention_probs_dropout_prob),
            Self::Llama(_) => Some(0.0),
            Self::Gpt2(size) => Some(size.attn_pdrop),
            Self::Bloom(size) => Some(size.attention_dropout),
            Self::Resnet(_) | Self::ResnetImagenet(_) | Self::Own => None,
        }
    }

    /// Returns true if training may use dropout, which includes any user-defined model.
    pub fn has_dropout(&self) -> bool {
        let shares = match self {
            Self::Distilbert(size) => [size.dropout, size.attention_dropout, size.seq_classif_dropout],
            Self::Bert(size) => [size.hidden_dropout_prob, size.attention_probs_dropout_prob, 0.0],
            Self::Vit(size) => [size.hidden_dropout_prob, size.attention_probs_dropout_prob, 0.0],
            Self::Gpt2(size) => [size.embd_pdrop, size.attn_pdrop, size.resid_pdrop],
            Self::Bloom(size) => [size.hidden_dropout, size.attention_dropout, 0.0],
            Self::Llama(_) | Self::Resnet(_) | Self::ResnetImagenet(_) => [0.0; 3],
            Self::Own => return true,
        };
        shares.iter().any(|share| *share > 0.0)
    }

    /// Returns true if there is a fused attention kernel. No fused kernel supports the ALiBi biases of BLOOM.
    pub(crate) fn has_fused_attention(&self) -> bool {
        self.attention_dropout().is_some() && !matches!(self, Self::Bloom(_))
    }

    /// Returns true if the model has batch norms.
    pub fn normalises_batches(&self) -> bool {
        matches!(self, Self::Resnet(_) | Self::ResnetImagenet(_))
    }

    /// Returns true if the model may have convolutions.
    pub fn convolves(&self) -> bool {
        self.normalises_batches() || *self == Self::Own
    }
}

/// Default epsilon of the layer norms of BERT, DistilBERT and ViT.
pub const NORM_EPSILON: f64 = 1e-12;

const fn norm_epsilon() -> f64 {
    NORM_EPSILON
}

fn is_norm_epsilon(epsilon: &f64) -> bool {
    *epsilon == NORM_EPSILON
}

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

/// Size of a ResNet for large images, with four stages. Each stage after the first halves height and width and doubles
/// the channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageNetResNetSize {
    /// Layers with weights: 18, or 50 with bottlenecks.
    pub depth: u32,
    /// Channels of the first stage.
    pub width: u32,
    /// Rows and columns of an image.
    pub image_size: u32,
}

impl ImageNetResNetSize {
    /// ResNet-50: 26 million parameters with 1,000 classes.
    pub const RESNET50: Self = Self {
        depth: 50,
        width: 64,
        image_size: 224,
    };
}

/// Size of a ResNet for small images, with three stages of equal depth. The second and the third stage halve height and
/// width and double the channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResNetSize {
    /// Layers with weights: `6 n + 2` for `n` blocks per stage.
    pub depth: u32,
    /// Channels of the first stage.
    pub width: u32,
}

impl ResNetSize {
    /// Height and width of the input images.
    pub const IMAGE: u32 = 32;

    /// ResNet-20: 270 thousand parameters.
    pub const RESNET20: Self = Self { depth: 20, width: 16 };

    /// Returns the number of blocks per stage.
    pub fn blocks(&self) -> u32 {
        self.depth.saturating_sub(2) / 6
    }
}

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
