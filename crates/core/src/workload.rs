//! What is run: a model, a task and a dataset, with the sizes that a profile resolved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Axis, Model, name::named};

named! {
    /// Kinds of task that a suite may name.
    pub enum TaskKind ("task") {
        /// Train a model and test it.
        Train = "train",
        /// Test a model that has been trained elsewhere.
        Evaluate = "evaluate",
        /// Have a model write, token by token.
        Generate = "generate",
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
        /// The seeded generator of running text: synthetic, and named as such wherever it shows.
        SyntheticText = "synthetic-text",
        /// Running text from the user's disk, of which words are predicted: the next, or hidden ones.
        Text = "text",
        /// That of the program which runs the suite.
        Own = "own",
    }
}

impl DatasetKind {
    /// Whether the examples are images, and not texts.
    pub fn has_images(self) -> bool {
        matches!(self, Self::SyntheticImages | Self::Images)
    }

    /// Whether the examples are labelled texts.
    pub fn has_reviews(self) -> bool {
        matches!(self, Self::SyntheticReviews | Self::Reviews)
    }

    /// Whether it is made by a seeded generator of ours.
    pub fn is_synthetic(self) -> bool {
        matches!(
            self,
            Self::SyntheticReviews | Self::SyntheticImages | Self::SyntheticText
        )
    }

    /// Whether it has no labels but the words themselves.
    pub fn is_running_text(self) -> bool {
        matches!(self, Self::Text | Self::SyntheticText)
    }

    /// The seeded generator of examples of this kind.
    #[must_use]
    pub fn synthetic(self) -> Self {
        match self {
            Self::Images | Self::SyntheticImages => Self::SyntheticImages,
            Self::Text | Self::SyntheticText => Self::SyntheticText,
            Self::Reviews | Self::SyntheticReviews => Self::SyntheticReviews,
            Self::Own => Self::Own,
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
            Task::Generate(_) => TaskKind::Generate,
            Task::Kernel(_) => TaskKind::Kernel,
        }
    }

    /// The model that it runs, if that is what it does.
    pub fn model(&self) -> Option<&Model> {
        match &self.task {
            Task::Train(task) => Some(&task.model),
            Task::Evaluate(task) => Some(&task.model),
            Task::Generate(task) => Some(&task.model),
            Task::Kernel(_) => None,
        }
    }

    /// Whether what it predicts are words of running text, and not classes.
    pub fn predicts_words(&self) -> bool {
        match &self.task {
            Task::Train(task) => task.dataset.is_running_text(),
            Task::Evaluate(task) => task.dataset.is_running_text(),
            Task::Generate(_) | Task::Kernel(_) => false,
        }
    }

    /// Whether an axis means anything to it: to its task, and to what that runs.
    pub fn concerns(&self, axis: Axis) -> bool {
        axis.applies_to(self.kind())
            && match (&self.task, axis) {
                // A query that comes alone has no use for one kernel.
                (Task::Generate(_), Axis::Attention) => false,
                (Task::Train(_) | Task::Evaluate(_) | Task::Generate(_), axis) => {
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
    /// Train a model, then test it.
    Train(TrainTask),
    /// Test a model with the weights that it is given.
    Evaluate(EvaluateTask),
    /// Have a model write, token by token.
    Generate(GenerateTask),
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

/// Having a language model write: it reads a prompt at once, and then its own tokens one by one, with what attention needs of the
/// earlier ones kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GenerateTask {
    /// The model and its size.
    pub model: Model,
    /// Tokens of a prompt, which are drawn from the cell's seed.
    pub prompt_tokens: u32,
    /// Tokens that are written after it.
    pub new_tokens: u32,
    /// What logits are divided by before a token is drawn; 0: the likeliest token is taken.
    pub temperature: f64,
    /// Fewest texts that are written.
    pub min_samples: u32,
    /// Most texts that are written.
    pub max_samples: u32,
    /// No text is begun after this many seconds once `min_samples` are there.
    pub max_seconds: f64,
    /// Sampling stops when half the 95 % interval of the median is within this share of it.
    pub max_noise: f64,
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
