//! Workloads: a task with its model or kernel, its data and the sizes from the profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Axis, Model, name::named};

named! {
    /// Kind of task.
    pub enum TaskKind ("task") {
        /// Trains a model and tests it.
        Train = "train",
        /// Tests a pretrained model.
        Evaluate = "evaluate",
        /// Generates text token by token.
        Generate = "generate",
        /// Times one operation and compares its result with float64.
        Kernel = "kernel",
    }
}

named! {
    /// Operation of a kernel workload.
    pub enum KernelKind ("kernel") {
        /// Matrix multiplication.
        Matmul = "matmul",
        /// Convolution of images.
        Convolution = "convolution",
        /// Attention: two matmuls and the softmax between them.
        Attention = "attention",
        /// Gaussian error linear unit.
        Gelu = "gelu",
        /// Softmax of every row.
        Softmax = "softmax",
        /// Layer norm of every row.
        LayerNorm = "layer-norm",
        /// Root-mean-square norm of every row (arXiv 1910.07467).
        RmsNorm = "rms-norm",
        /// Cast to the format of matmul-class operations in a mixed setting.
        Cast = "cast",
        /// AdamW optimizer step.
        AdamW = "adamw",
    }
}

impl KernelKind {
    /// Returns true if the operation consists of dot products. The other operations are limited by memory bandwidth.
    pub fn multiplies(self) -> bool {
        matches!(self, Self::Matmul | Self::Convolution | Self::Attention)
    }
}

named! {
    /// Data set that a workload uses: the synthetic one if the user provides no data.
    pub enum DatasetKind ("dataset") {
        /// Synthetic labelled reviews from a seeded generator. Reports label them as synthetic.
        SyntheticReviews = "synthetic-reviews",
        /// Labelled reviews from the user's files.
        Reviews = "reviews",
        /// Synthetic labelled images from a seeded generator. Reports label them as synthetic.
        SyntheticImages = "synthetic-images",
        /// Labelled images from the user's files.
        Images = "images",
        /// Synthetic running text from a seeded generator. Reports label it as synthetic.
        SyntheticText = "synthetic-text",
        /// Running text from the user's files. A model predicts the next or the masked tokens.
        Text = "text",
        /// Data set of the program that runs the suite.
        Own = "own",
    }
}

impl DatasetKind {
    /// Returns true if the examples are images.
    pub fn has_images(self) -> bool {
        matches!(self, Self::SyntheticImages | Self::Images)
    }

    /// Returns true if the examples are labelled texts.
    pub fn has_reviews(self) -> bool {
        matches!(self, Self::SyntheticReviews | Self::Reviews)
    }

    /// Returns true if the data comes from a seeded generator.
    pub fn is_synthetic(self) -> bool {
        matches!(
            self,
            Self::SyntheticReviews | Self::SyntheticImages | Self::SyntheticText
        )
    }

    /// Returns true if the labels are the tokens of the text itself.
    pub fn is_running_text(self) -> bool {
        matches!(self, Self::Text | Self::SyntheticText)
    }

    /// Returns the synthetic data set of the same kind of examples.
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
    /// State of the last-level cache when a kernel is launched.
    pub enum CacheState ("cache") {
        /// The cache does not contain the inputs. Launches rotate through copies of the inputs that together exceed the
        /// cache.
        Cold = "cold",
        /// The cache contains data of the previous launch, which had the same inputs.
        Warm = "warm",
    }
}

/// Task with a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Name of the workload, unique in its suite.
    pub name: String,
    /// Task of the workload.
    pub task: Task,
}

impl Workload {
    /// Returns the kind of the task.
    pub fn kind(&self) -> TaskKind {
        match self.task {
            Task::Train(_) => TaskKind::Train,
            Task::Evaluate(_) => TaskKind::Evaluate,
            Task::Generate(_) => TaskKind::Generate,
            Task::Kernel(_) => TaskKind::Kernel,
        }
    }

    /// Returns the model, unless this is a kernel workload.
    pub fn model(&self) -> Option<&Model> {
        match &self.task {
            Task::Train(task) => Some(&task.model),
            Task::Evaluate(task) => Some(&task.model),
            Task::Generate(task) => Some(&task.model),
            Task::Kernel(_) => None,
        }
    }

    /// Returns true if the model predicts tokens of running text rather than classes.
    pub fn predicts_tokens(&self) -> bool {
        match &self.task {
            Task::Train(task) => task.dataset.is_running_text(),
            Task::Evaluate(task) => task.dataset.is_running_text(),
            Task::Generate(_) | Task::Kernel(_) => false,
        }
    }

    /// Returns true if an axis applies to the task and to its model or kernel.
    pub fn concerns(&self, axis: Axis) -> bool {
        axis.applies_to(self.kind()) && axis.concerns(self)
    }
}

/// Task of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Trains a model, then tests it.
    Train(TrainTask),
    /// Tests a model with given weights.
    Evaluate(EvaluateTask),
    /// Generates text token by token.
    Generate(GenerateTask),
    /// Times one operation.
    Kernel(KernelTask),
}

/// Training for a fixed number of epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainTask {
    /// Model with its size.
    pub model: Model,
    /// Data set.
    pub dataset: DatasetKind,
    /// Division of the data into training, validation and test examples.
    pub split: Split,
    /// Passes over the training examples.
    pub epochs: u32,
    /// Maximum of the learning-rate schedule, before scaling with the effective batch size.
    pub learning_rate: f64,
    /// Weight decay, used by `adamw`, `lars` and `lamb`.
    pub weight_decay: f64,
    /// Momentum, used by `sgd` and `lars`.
    pub momentum: f64,
    /// True if an incomplete last micro-batch of an epoch is dropped, as in the article.
    pub drop_last: bool,
    /// Interval in optimizer steps at which value ranges are observed; 0: never. Observation takes additional time and
    /// memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observe_every: u32,
    /// True if the trained model is tested again with matmul-class operations in narrower and narrower formats.
    #[serde(default, skip_serializing_if = "is_off")]
    pub sensitivity: bool,
    /// Computation of an optimizer step from gradients.
    #[serde(flatten)]
    pub updates: Updates,
}

/// Test of a model with given weights. Its predictions are compared with those of the same model in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluateTask {
    /// Model with its size.
    pub model: Model,
    /// Data set; only its test examples are used.
    pub dataset: DatasetKind,
    /// Maximum number of test examples; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<u32>,
}

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

/// Computation of an optimizer step from gradients. Values equal to those of the article are not part of the id of a
/// cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Updates {
    /// Learning-rate schedule.
    #[serde(skip_serializing_if = "is_constant")]
    pub learning_rate_schedule: LearningRateSchedule,
    /// Warm-up steps, in which the learning rate rises from 0 before its schedule begins.
    #[serde(skip_serializing_if = "is_zero")]
    pub warmup_steps: u32,
    /// Effective batch size at which the learning rate is not scaled, if it scales with the effective batch size.
    #[serde(skip_serializing_if = "is_usual_batch")]
    pub learning_rate_batch: u32,
    /// Maximum norm of all gradients together; larger gradients are scaled down to it. Absent: no clipping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Constant loss scale; absent: dynamic loss scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
}

/// Default of [`Updates::learning_rate_batch`].
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
    /// Learning-rate schedule after the warm-up.
    pub enum LearningRateSchedule ("learning-rate schedule") {
        /// Constant learning rate.
        Constant = "constant",
        /// Linear decay to 0.
        Linear = "linear",
        /// Cosine decay to 0.
        Cosine = "cosine",
    }
}

/// Split of the data into training, validation and test examples. All settings of a workload use the same split and can
/// be compared pairwise on the same test examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// True if the given parts are joined before the split, as in the articles. Otherwise the given test part is kept
    /// and the validation examples are taken from the training part.
    pub join: bool,
    /// Number of training examples; absent: all that are left.
    pub train: Option<u32>,
    /// Number of validation examples.
    pub validation: u32,
    /// Number of test examples; absent: all that are left.
    pub test: Option<u32>,
    /// Seed of the shuffle before the split.
    pub seed: u64,
}

/// Timing of one operation, with its error compared with float64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTask {
    /// Operation and its shape.
    pub kernel: Kernel,
    /// Minimum number of timed launches.
    pub min_samples: u32,
    /// Maximum number of timed launches.
    pub max_samples: u32,
    /// Time in seconds of launches after which sampling stops, once there are `min_samples` samples.
    pub max_seconds: f64,
    /// Target precision: sampling stops when half the width of the 95 % confidence interval of the median is within
    /// this share of the median.
    pub max_noise: f64,
    /// State of the last-level cache when a launch begins. Records without this field were measured with a warm cache.
    #[serde(default = "warm")]
    pub cache: CacheState,
}

fn warm() -> CacheState {
    CacheState::Warm
}

/// Operation with the part of its shape that the axis `size` does not determine.
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
    /// Returns the kind of operation.
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

    /// Returns the shape of an operation without dot products.
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

    /// Returns true if the shape depends on the axis `size`.
    pub fn has_free_edge(&self) -> bool {
        match self {
            Self::Matmul(shape) => [shape.m, shape.n, shape.k].contains(&None),
            Self::Convolution(_) | Self::Attention(_) => true,
            _ => self.rows().is_some_and(|shape| shape.rows.is_none()),
        }
    }
}

/// Shape of a batched matmul. Absent dimensions are set by the axis `size`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatmulShape {
    /// Batch size.
    pub batch: u32,
    /// Rows of the result.
    pub m: Option<u32>,
    /// Columns of the result.
    pub n: Option<u32>,
    /// Length of the inner dimension.
    pub k: Option<u32>,
}

impl MatmulShape {
    /// One square matmul.
    pub const SQUARE: Self = Self {
        batch: 1,
        m: None,
        n: None,
        k: None,
    };

    /// Returns `[batch, m, n, k]` for a value of the axis `size`.
    pub fn of(&self, size: u32) -> [usize; 4] {
        let edge = |edge: Option<u32>| edge.unwrap_or(size) as usize;
        [self.batch as usize, edge(self.m), edge(self.n), edge(self.k)]
    }
}

/// Shape of a convolution of square images with square filters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConvolutionShape {
    /// Number of images.
    pub batch: u32,
    /// Channels of an image.
    pub channels: u32,
    /// Number of filters, which is the number of output channels.
    pub filters: u32,
    /// Rows and columns of a filter.
    pub edge: u32,
    /// Stride in rows and columns.
    pub stride: u32,
    /// Zero padding around an image, in rows and columns.
    pub padding: u32,
}

/// Shape of an attention operation without its sequence length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionShape {
    /// Number of sequences.
    pub batch: u32,
    /// Number of heads.
    pub heads: u32,
    /// Width of a head.
    pub width: u32,
}

/// Shape of the input of a kernel without dot products.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowsShape {
    /// Number of rows; absent: the axis `size`.
    pub rows: Option<u32>,
    /// Values per row.
    pub width: u32,
}

impl RowsShape {
    /// Returns `[rows, width]` for a value of the axis `size`.
    pub fn of(&self, size: u32) -> [usize; 2] {
        [self.rows.unwrap_or(size) as usize, self.width as usize]
    }
}
