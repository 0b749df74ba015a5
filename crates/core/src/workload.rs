//! Workloads: a task with its model or kernel, its data and the sizes from the profile.

mod evaluate;
mod generate;
mod kernel;
mod train;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use evaluate::EvaluateTask;
pub use generate::GenerateTask;
pub use kernel::{
    AttentionShape, CacheState, ConvolutionShape, Kernel, KernelKind, KernelTask, MatmulShape, RowsShape,
};
pub use train::{LearningRateSchedule, Split, TrainTask, Updates};

use crate::{Model, name::named};

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
