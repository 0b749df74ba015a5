//! In which order a training takes its examples, and how fast it learns.

use mantissa_core::{Cell, TrainTask};
use mantissa_precision::LearningRate;
use serde::Serialize;

use super::schedule::groups;

/// All of it, for other programs.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Course {
    /// Numbers of examples of the training part, by epoch, optimizer step and micro-batch.
    pub order: Vec<Vec<Vec<Vec<usize>>>>,
    /// Of every optimizer step.
    pub learning_rates: Vec<f64>,
}

impl Course {
    pub fn of(cell: &Cell, task: &TrainTask, examples: usize) -> Self {
        let epochs = 0..task.epochs;
        let order: Vec<_> = epochs.map(|epoch| order(cell, task, examples, epoch)).collect();
        let steps = order.iter().map(Vec::len).sum::<usize>() as u64;
        let rate = learning_rate(cell, task, steps);
        Self {
            order,
            learning_rates: (0..steps).map(|step| rate.at(step)).collect(),
        }
    }
}

/// Micro-batches by optimizer step, of one epoch.
pub(super) fn order(cell: &Cell, task: &TrainTask, examples: usize, epoch: u32) -> Vec<Vec<Vec<usize>>> {
    let (batch, accumulate) = (cell.setting.batch() as usize, cell.setting.accumulate() as usize);
    let seed = cell.seed.wrapping_add(u64::from(epoch));
    groups(examples, batch, accumulate, task.drop_last, seed)
}

/// The learning rate over so many optimizer steps.
pub(super) fn learning_rate(cell: &Cell, task: &TrainTask, steps: u64) -> LearningRate {
    let setting = &cell.setting;
    LearningRate::new(
        task.learning_rate,
        &task.updates,
        setting.learning_rate_scaling(),
        u64::from(setting.batch()) * u64::from(setting.accumulate()),
        steps,
    )
}
