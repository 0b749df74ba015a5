//! Models and their sizes, with the field names of their published configurations.

mod bert;
mod bloom;
mod distilbert;
mod gpt2;
mod llama;
mod norm_epsilon;
mod resnet;
mod vit;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bert::BertSize;
pub use bloom::BloomSize;
pub use distilbert::DistilBertSize;
pub use gpt2::Gpt2Size;
pub use llama::{LlamaSize, RopeScaling};
pub use norm_epsilon::NORM_EPSILON;
pub use resnet::{ImageNetResNetSize, ResNetSize};
pub use vit::VitSize;

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
    pub const MAX_LAYERS: u32 = 10_000;

    /// Returns the number of Transformer blocks; for a ResNet, of layers with weights.
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
    pub fn takes_images(&self) -> bool {
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

    /// Returns the maximum sequence length; `None` without a known limit.
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

    /// Returns true if training may use dropout. A user-defined model always may.
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
