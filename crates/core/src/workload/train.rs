//! Training task: its data, its epochs and its optimizer steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DatasetKind, Model, name::named};

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
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitivity: bool,
    /// Computation of an optimizer step from gradients.
    #[serde(flatten)]
    pub updates: Updates,
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
    #[serde(skip_serializing_if = "is_default_batch")]
    pub learning_rate_batch: u32,
    /// Maximum norm of all gradients together; larger gradients are scaled down to it. Absent: no clipping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Constant loss scale; absent: dynamic loss scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
}

/// Default of [`Updates::learning_rate_batch`].
const DEFAULT_BATCH: u32 = 32;

impl Default for Updates {
    fn default() -> Self {
        Self {
            learning_rate_schedule: LearningRateSchedule::Constant,
            warmup_steps: 0,
            learning_rate_batch: DEFAULT_BATCH,
            clip_norm: None,
            loss_scale: None,
        }
    }
}

fn is_constant(schedule: &LearningRateSchedule) -> bool {
    *schedule == LearningRateSchedule::Constant
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(steps: &u32) -> bool {
    *steps == 0
}

fn is_default_batch(batch: &u32) -> bool {
    *batch == DEFAULT_BATCH
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
