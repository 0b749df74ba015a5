//! Order of examples and learning rate of a training.

use mantissa_core::{Cell, TrainTask};
use mantissa_precision::LearningRate;

use super::schedule::groups;

/// Returns the micro-batches of each optimizer step of an epoch, for all devices together. An asynchronous server makes a step with the
/// gradient of one device.
pub(crate) fn order(cell: &Cell, task: &TrainTask, examples: usize, epoch: u32) -> Vec<Vec<Vec<usize>>> {
    let setting = &cell.setting;
    let devices = if setting.is_asynchronous() {
        1
    } else {
        setting.devices()
    };
    let per_step = setting.accumulate() as usize * devices as usize;
    let seed = cell.seed.wrapping_add(u64::from(epoch));
    groups(examples, setting.batch() as usize, per_step, task.drop_last, seed)
}

/// Returns the learning rate schedule over `steps` optimizer steps.
pub(crate) fn learning_rate(cell: &Cell, task: &TrainTask, steps: u64) -> LearningRate {
    let setting = &cell.setting;
    LearningRate::new(
        setting.learning_rate().unwrap_or(task.learning_rate),
        &task.updates,
        setting.learning_rate_scaling(),
        setting.effective_batch(),
        steps,
    )
}
