//! Order of examples and learning rate of a training.

use mantissa_core::{Cell, TrainTask};
use mantissa_precision::LearningRate;

use super::schedule::groups;

/// Returns the micro-batches of each optimizer step of an epoch.
pub(crate) fn order(cell: &Cell, task: &TrainTask, examples: usize, epoch: u32) -> Vec<Vec<Vec<usize>>> {
    let (batch, accumulate) = (cell.setting.batch() as usize, cell.setting.accumulate() as usize);
    let seed = cell.seed.wrapping_add(u64::from(epoch));
    groups(examples, batch, accumulate, task.drop_last, seed)
}

/// Returns the learning rate schedule over `steps` optimizer steps.
pub(crate) fn learning_rate(cell: &Cell, task: &TrainTask, steps: u64) -> LearningRate {
    let setting = &cell.setting;
    LearningRate::new(
        task.learning_rate,
        &task.updates,
        setting.learning_rate_scaling(),
        u64::from(setting.batch()) * u64::from(setting.accumulate()),
        steps,
    )
}
