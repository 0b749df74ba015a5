//! What is run: a model, a task and a dataset, with the sizes that a profile resolved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Kinds of task that a suite may name.
    pub enum TaskKind ("task") {
        /// Train a model and test it.
        Train = "train",
        /// Time one operation and compare it with float64.
        Kernel = "kernel",
    }
}

named! {
    /// Operations that a kernel workload may time.
    pub enum KernelKind ("kernel") {
        /// Square matrix product.
        Matmul = "matmul",
    }
}

named! {
    /// Data that a workload trains on, as executed (not as wished for).
    pub enum DatasetKind ("dataset") {
        /// The seeded generator of labelled reviews: synthetic, and named as such wherever it shows.
        SyntheticReviews = "synthetic-reviews",
        /// Labelled reviews from the user's disk.
        Reviews = "reviews",
    }
}

/// A named task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Name, unique in its suite.
    pub name: String,
    /// What to do.
    pub task: Task,
}

impl Workload {
    /// The kind of the task.
    pub fn kind(&self) -> TaskKind {
        match self.task {
            Task::Train(_) => TaskKind::Train,
            Task::Kernel(_) => TaskKind::Kernel,
        }
    }
}

/// What a workload does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Train a classifier, then test it.
    Train(TrainTask),
    /// Time one operation.
    Kernel(KernelTask),
}

/// Training to a fixed number of epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainTask {
    /// The model and its size.
    pub model: Model,
    /// The data.
    pub dataset: DatasetKind,
    /// How the data is divided.
    pub split: Split,
    /// Passes over the training part.
    pub epochs: u32,
    /// Learning rate, constant.
    pub learning_rate: f64,
    /// Decoupled weight decay; `adamw` alone uses it.
    pub weight_decay: f64,
    /// Momentum; `sgd` alone uses it.
    pub momentum: f64,
    /// Whether a short last micro-batch of an epoch is dropped, as the article did.
    pub drop_last: bool,
}

/// How labelled data becomes three parts. Settings of one workload share the split, so that they can be compared
/// pairwise on the same test examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// Join all parts first and cut them anew (as the articles did); else the given test part is kept and
    /// validation is cut from the training part.
    pub join: bool,
    /// Training examples; absent: all that are left.
    pub train: Option<u32>,
    /// Validation examples.
    pub validation: u32,
    /// Test examples; absent: all that are left.
    pub test: Option<u32>,
    /// Seed of the shuffle before cutting.
    pub seed: u64,
}

/// A model and its size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// DistilBERT for sequence classification (arXiv 1910.01108).
    Distilbert(DistilBertSize),
}

impl Model {
    /// Name in suites and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Distilbert(_) => "distilbert",
        }
    }
}

/// Size of a DistilBERT, in the words of its Hugging Face `config.json`.
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
    /// Longest sequence.
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

/// Timing one operation, with its error against float64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTask {
    /// The operation.
    pub kernel: KernelKind,
    /// Fewest timed launches.
    pub min_samples: u32,
    /// Most timed launches.
    pub max_samples: u32,
    /// Sampling stops after this many seconds once `min_samples` are there.
    pub max_seconds: f64,
}
