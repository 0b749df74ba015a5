//! What is run: a model, a task and a dataset, with the sizes that a profile resolved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Axis, name::named};

named! {
    /// Kinds of task that a suite may name.
    pub enum TaskKind ("task") {
        /// Train a model and test it.
        Train = "train",
        /// Test a model that has been trained elsewhere.
        Evaluate = "evaluate",
        /// Time one operation and compare it with float64.
        Kernel = "kernel",
    }
}

named! {
    /// Operations that a kernel workload may time.
    pub enum KernelKind ("kernel") {
        /// Matrix product.
        Matmul = "matmul",
        /// Convolution of images.
        Convolution = "convolution",
        /// Attention: two products and the softmax between them.
        Attention = "attention",
        /// Gaussian error linear unit.
        Gelu = "gelu",
        /// Softmax of every row.
        Softmax = "softmax",
        /// Layer norm of every row.
        LayerNorm = "layer-norm",
        /// Root-mean-square norm of every row (arXiv 1910.07467).
        RmsNorm = "rms-norm",
        /// Rounding to the format of matmul-class operations under a mixed setting.
        Cast = "cast",
        /// A step of AdamW.
        AdamW = "adamw",
    }
}

impl KernelKind {
    /// Whether it sums products: what the other kinds do is bound by moving their values.
    pub fn multiplies(self) -> bool {
        matches!(self, Self::Matmul | Self::Convolution | Self::Attention)
    }
}

named! {
    /// Data that a workload trains on, as executed (not as wished for).
    pub enum DatasetKind ("dataset") {
        /// The seeded generator of labelled reviews: synthetic, and named as such wherever it shows.
        SyntheticReviews = "synthetic-reviews",
        /// Labelled reviews from the user's disk.
        Reviews = "reviews",
        /// The seeded generator of labelled images: synthetic, and named as such wherever it shows.
        SyntheticImages = "synthetic-images",
        /// Labelled images from the user's disk.
        Images = "images",
    }
}

impl DatasetKind {
    /// Whether the examples are images, and not texts.
    pub fn has_images(self) -> bool {
        matches!(self, Self::SyntheticImages | Self::Images)
    }

    /// Whether it is made by a seeded generator.
    pub fn is_synthetic(self) -> bool {
        matches!(self, Self::SyntheticReviews | Self::SyntheticImages)
    }

    /// The seeded generator of examples of this kind.
    #[must_use]
    pub fn synthetic(self) -> Self {
        if self.has_images() {
            Self::SyntheticImages
        } else {
            Self::SyntheticReviews
        }
    }
}

named! {
    /// What the last-level cache holds of a kernel's inputs when a launch begins.
    pub enum CacheState ("cache") {
        /// Nothing: copies of the inputs that are together larger than the cache take turns.
        Cold = "cold",
        /// What the launch before left there, which had the same inputs.
        Warm = "warm",
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
            Task::Evaluate(_) => TaskKind::Evaluate,
            Task::Kernel(_) => TaskKind::Kernel,
        }
    }

    /// The model that it runs, if that is what it does.
    pub fn model(&self) -> Option<&Model> {
        match &self.task {
            Task::Train(task) => Some(&task.model),
            Task::Evaluate(task) => Some(&task.model),
            Task::Kernel(_) => None,
        }
    }

    /// Whether an axis means anything to it: to its task, and to what that runs.
    pub fn concerns(&self, axis: Axis) -> bool {
        axis.applies_to(self.kind())
            && match (&self.task, axis) {
                (Task::Train(_) | Task::Evaluate(_), axis) => {
                    self.model().is_none_or(|model| model.concerns(axis))
                }
                (Task::Kernel(task), Axis::Attention) => task.kernel.kind() == KernelKind::Attention,
                (Task::Kernel(task), Axis::Gelu) => task.kernel.kind() == KernelKind::Gelu,
                (Task::Kernel(task), Axis::Matmul | Axis::Accumulator) => task.kernel.kind().multiplies(),
                (Task::Kernel(task), Axis::Size) => task.kernel.has_free_edge(),
                _ => true,
            }
    }
}

/// What a workload does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Train a classifier, then test it.
    Train(TrainTask),
    /// Test a model with the weights that it is given.
    Evaluate(EvaluateTask),
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
    /// Learning rate: the highest of its schedule, before it is scaled to the effective batch.
    pub learning_rate: f64,
    /// Weight decay; `adamw`, `lars` and `lamb` use it.
    pub weight_decay: f64,
    /// Momentum; `sgd` and `lars` use it.
    pub momentum: f64,
    /// Whether a short last micro-batch of an epoch is dropped, as the article did.
    pub drop_last: bool,
    /// Optimizer steps from one whose ranges are observed to the next; 0: none is. Observed cells take more time and memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observe_every: u32,
    /// Whether the trained model is tested again with its products in formats of fewer and fewer bits.
    #[serde(default, skip_serializing_if = "is_off")]
    pub sensitivity: bool,
    /// How an optimizer step is made of gradients.
    #[serde(flatten)]
    pub updates: Updates,
}

/// Testing a model with the weights that it is given, and comparing what it predicts with what it predicts in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluateTask {
    /// The model and its size.
    pub model: Model,
    /// The data, of which the test part is used.
    pub dataset: DatasetKind,
    /// Test examples, at most; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<u32>,
}

/// How an optimizer step is made of gradients. What is as in the article is not part of a cell's identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Updates {
    /// How the learning rate changes from step to step.
    #[serde(skip_serializing_if = "is_constant")]
    pub learning_rate_schedule: LearningRateSchedule,
    /// Steps in which the learning rate rises from 0, before its schedule begins.
    #[serde(skip_serializing_if = "is_zero")]
    pub warmup_steps: u32,
    /// Effective batch that the learning rate is meant for, where it follows the effective batch.
    #[serde(skip_serializing_if = "is_usual_batch")]
    pub learning_rate_batch: u32,
    /// Gradients are scaled down to this norm, all parameters together; absent: they are left as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// A loss scale that stays; absent: it follows overflows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
}

/// See [`Updates::learning_rate_batch`].
const USUAL_BATCH: u32 = 32;

impl Default for Updates {
    fn default() -> Self {
        Self {
            learning_rate_schedule: LearningRateSchedule::Constant,
            warmup_steps: 0,
            learning_rate_batch: USUAL_BATCH,
            clip_norm: None,
            loss_scale: None,
        }
    }
}

fn is_constant(schedule: &LearningRateSchedule) -> bool {
    *schedule == LearningRateSchedule::Constant
}

fn is_off(flag: &bool) -> bool {
    !flag
}

fn is_zero(steps: &u32) -> bool {
    *steps == 0
}

fn is_usual_batch(batch: &u32) -> bool {
    *batch == USUAL_BATCH
}

named! {
    /// How the learning rate changes from step to step, once it is warm.
    pub enum LearningRateSchedule ("learning-rate schedule") {
        /// It does not.
        Constant = "constant",
        /// It falls to 0 in proportion to the steps that are left.
        Linear = "linear",
        /// It falls to 0 along half a cosine.
        Cosine = "cosine",
    }
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
    /// BERT for sequence classification (arXiv 1810.04805).
    Bert(BertSize),
    /// ResNet for small images (arXiv 1512.03385, section 4.2).
    Resnet(ResNetSize),
    /// ResNet for large images (arXiv 1512.03385, table 1; bottlenecks with their stride in the 3 × 3, "v1.5").
    ResnetImagenet(ImageNetResNetSize),
    /// Vision transformer (arXiv 2010.11929).
    Vit(VitSize),
}

impl Model {
    /// Name in suites and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Distilbert(_) => "distilbert",
            Self::Bert(_) => "bert",
            Self::Resnet(_) => "resnet",
            Self::ResnetImagenet(_) => "resnet-imagenet",
            Self::Vit(_) => "vit",
        }
    }

    /// Whether its examples are images, and not texts.
    pub fn sees_images(&self) -> bool {
        self.image_size().is_some()
    }

    /// Rows and columns of the images that it sees.
    pub fn image_size(&self) -> Option<u32> {
        match self {
            Self::Resnet(_) => Some(ResNetSize::IMAGE),
            Self::ResnetImagenet(size) => Some(size.image_size),
            Self::Vit(size) => Some(size.image_size),
            Self::Distilbert(_) | Self::Bert(_) => None,
        }
    }

    /// Tokens of the longest sequence that it has positions for.
    pub fn positions(&self) -> Option<u32> {
        match self {
            Self::Distilbert(size) => Some(size.max_position_embeddings),
            Self::Bert(size) => Some(size.max_position_embeddings),
            Self::Resnet(_) | Self::ResnetImagenet(_) | Self::Vit(_) => None,
        }
    }

    /// Share of the weights of attention that a training drops; absent without attention.
    pub fn attention_dropout(&self) -> Option<f64> {
        match self {
            Self::Distilbert(size) => Some(size.attention_dropout),
            Self::Bert(size) => Some(size.attention_probs_dropout_prob),
            Self::Vit(size) => Some(size.attention_probs_dropout_prob),
            Self::Resnet(_) | Self::ResnetImagenet(_) => None,
        }
    }

    /// Whether an axis that concerns some models means anything to this one.
    fn concerns(&self, axis: Axis) -> bool {
        match axis {
            Axis::BatchNormMomentum => self.normalises_batches(),
            Axis::Sequence => !self.sees_images(),
            Axis::Attention => self.attention_dropout().is_some(),
            _ => true,
        }
    }

    /// Whether it has batch norms.
    pub fn normalises_batches(&self) -> bool {
        matches!(self, Self::Resnet(_) | Self::ResnetImagenet(_))
    }

    /// Whether it has layers that convolve.
    pub fn convolves(&self) -> bool {
        self.normalises_batches()
    }
}

/// Size of a BERT, in the words of its Hugging Face `config.json`.
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
    /// Longest sequence.
    pub max_position_embeddings: u32,
    /// Dropout after embeddings and sub-layers, and before the classifier.
    pub hidden_dropout_prob: f64,
    /// Dropout of attention weights.
    pub attention_probs_dropout_prob: f64,
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
    };
}

/// Size of a vision transformer, in the words of its Hugging Face `config.json`.
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
    };
}

/// Size of a ResNet for large images: four stages, each of which but the first halves the edge and doubles the channels.
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

/// Size of a ResNet for small images: three stages of as many blocks, the second and third of which halve the edge and double
/// the channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResNetSize {
    /// Layers with weights: `6 n + 2` for `n` blocks a stage.
    pub depth: u32,
    /// Channels of the first stage.
    pub width: u32,
}

impl ResNetSize {
    /// Rows and columns of the images.
    pub const IMAGE: u32 = 32;

    /// ResNet-20: 270 thousand parameters.
    pub const RESNET20: Self = Self { depth: 20, width: 16 };

    /// Blocks a stage.
    pub fn blocks(&self) -> u32 {
        self.depth.saturating_sub(2) / 6
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
    pub kernel: Kernel,
    /// Fewest timed launches.
    pub min_samples: u32,
    /// Most timed launches.
    pub max_samples: u32,
    /// Sampling stops after this many seconds of launches once `min_samples` are there.
    pub max_seconds: f64,
    /// Sampling stops when half the 95 % interval of the median is within this share of it.
    pub max_noise: f64,
    /// What the last-level cache holds of the inputs when a launch begins. Records from before it could be chosen were warm.
    #[serde(default = "warm")]
    pub cache: CacheState,
}

fn warm() -> CacheState {
    CacheState::Warm
}

/// An operation, with what of its shape the axis `size` does not say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// `[batch, m, k] × [batch, k, n]`.
    Matmul(MatmulShape),
    /// Images `[batch, channels, size, size]` and filters `[filters, channels, edge, edge]`.
    Convolution(ConvolutionShape),
    /// Queries, keys and values `[batch, heads, size, width]`.
    Attention(AttentionShape),
    /// Values `[rows, width]`.
    Gelu(RowsShape),
    /// Rows of `width` values.
    Softmax(RowsShape),
    /// Rows of `width` values, each value with a scale and a shift.
    LayerNorm(RowsShape),
    /// Rows of `width` values, each value with a scale.
    RmsNorm(RowsShape),
    /// Values `[rows, width]`.
    Cast(RowsShape),
    /// Parameters `[rows, width]`.
    #[serde(rename = "adamw")]
    AdamW(RowsShape),
}

impl Kernel {
    /// The kind of operation.
    pub fn kind(&self) -> KernelKind {
        match self {
            Self::Matmul(_) => KernelKind::Matmul,
            Self::Convolution(_) => KernelKind::Convolution,
            Self::Attention(_) => KernelKind::Attention,
            Self::Gelu(_) => KernelKind::Gelu,
            Self::Softmax(_) => KernelKind::Softmax,
            Self::LayerNorm(_) => KernelKind::LayerNorm,
            Self::RmsNorm(_) => KernelKind::RmsNorm,
            Self::Cast(_) => KernelKind::Cast,
            Self::AdamW(_) => KernelKind::AdamW,
        }
    }

    /// The shape of a kernel that sums no products.
    pub fn rows(&self) -> Option<RowsShape> {
        match *self {
            Self::Matmul(_) | Self::Convolution(_) | Self::Attention(_) => None,
            Self::Gelu(rows)
            | Self::Softmax(rows)
            | Self::LayerNorm(rows)
            | Self::RmsNorm(rows)
            | Self::Cast(rows)
            | Self::AdamW(rows) => Some(rows),
        }
    }

    /// Whether the axis `size` says anything about its shape.
    pub fn has_free_edge(&self) -> bool {
        match self {
            Self::Matmul(shape) => [shape.m, shape.n, shape.k].contains(&None),
            Self::Convolution(_) | Self::Attention(_) => true,
            _ => self.rows().is_some_and(|shape| shape.rows.is_none()),
        }
    }
}

/// Shape of a batch of matrix products. An edge that is absent is the axis `size`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatmulShape {
    /// Products at a time.
    pub batch: u32,
    /// Rows of the result.
    pub m: Option<u32>,
    /// Columns of the result.
    pub n: Option<u32>,
    /// Terms of a sum.
    pub k: Option<u32>,
}

impl MatmulShape {
    /// One square product.
    pub const SQUARE: Self = Self {
        batch: 1,
        m: None,
        n: None,
        k: None,
    };

    /// `[batch, m, n, k]`.
    pub fn of(&self, size: u32) -> [usize; 4] {
        let edge = |edge: Option<u32>| edge.unwrap_or(size) as usize;
        [self.batch as usize, edge(self.m), edge(self.n), edge(self.k)]
    }
}

/// Shape of a convolution of square images with square filters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConvolutionShape {
    /// Images at a time.
    pub batch: u32,
    /// Channels of an image.
    pub channels: u32,
    /// Filters, each of which gives one channel of the result.
    pub filters: u32,
    /// Rows and columns of a filter.
    pub edge: u32,
    /// Rows and columns from one window to the next.
    pub stride: u32,
    /// Rows and columns of zeros around an image.
    pub padding: u32,
}

/// Shape of attention.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionShape {
    /// Sequences at a time.
    pub batch: u32,
    /// Heads of a sequence.
    pub heads: u32,
    /// Width of a head.
    pub width: u32,
}

/// Shape of what a kernel without products works on: rows of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowsShape {
    /// Rows; the axis `size` if absent.
    pub rows: Option<u32>,
    /// Values in a row.
    pub width: u32,
}

impl RowsShape {
    /// `[rows, width]`.
    pub fn of(&self, size: u32) -> [usize; 2] {
        [self.rows.unwrap_or(size) as usize, self.width as usize]
    }
}
