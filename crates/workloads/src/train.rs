//! Trains and tests a model.
//!
//! The training loop is that of `suites/articles`: epochs of shuffled micro-batches, a validation after each epoch, and a test at the end.
//! An optimizer step accumulates the gradients of a group of `accumulate` micro-batches. Each micro-batch contributes its *summed* loss
//! divided by the number of labels in the group, so that short micro-batches are weighted by their size. An incomplete group at the end of
//! an epoch also makes a step. With several devices, the micro-batches of a group are distributed among the ranks (see `ranks`).

mod batch_order;
mod checkpointing;
mod epochs;
mod evaluate;
mod evaluation;
mod forward;
#[cfg(test)]
mod golden;
mod log;
mod memory;
mod observe;
mod outcome;
mod ranks;
mod save;
mod schedule;
mod sensitivity;
mod step;
#[cfg(test)]
pub(crate) mod testing;
mod trainer;
mod warm_up;

use std::{path::Path, time::Instant};

use burn::tensor::Device;
use mantissa_collectives::Group;
use mantissa_core::{Cell, Precision, TrainTask};

use crate::{
    Inputs, Observer, Outcome, Phase, WorkloadError,
    data::{Dataset, RequestedSplits},
    model_and_data::{ModelFactory, ModelTask},
    models::Network,
    outcome::{progress, sync},
    timing::wall_clock,
};
use evaluate::evaluate;
use ranks::Ranks;
use trainer::Trainer;

pub(crate) use batch_order::{learning_rate, order};
pub(crate) use evaluation::Evaluation;
pub(crate) use log::{Log, StepResult};
pub(crate) use outcome::outcome;
pub(crate) use warm_up::{first_indices, micro_batch_sizes};

/// Runs a training cell on the model and data of a factory. The process is one rank of the group.
pub(crate) fn train<F: ModelFactory>(
    cell: &Cell,
    task: &TrainTask,
    inputs: &Inputs,
    device: &Device,
    group: &mut dyn Group,
    observer: &mut dyn Observer,
    factory: F,
) -> Result<Outcome, WorkloadError> {
    let started = Instant::now();
    progress(observer, device, Phase::Prepare, 0, 1);
    let splits = RequestedSplits::TrainAndTest(task.split.clone());
    let training = TrainingTask {
        cell,
        task,
        inputs,
        device,
        group,
        started,
        observer,
    };
    factory.run(cell, &splits, inputs, training)
}

/// Training cell whose model and data are not loaded yet.
struct TrainingTask<'a> {
    cell: &'a Cell,
    task: &'a TrainTask,
    inputs: &'a Inputs,
    device: &'a Device,
    group: &'a mut dyn Group,
    started: Instant,
    observer: &'a mut dyn Observer,
}

impl ModelTask for TrainingTask<'_> {
    type Output = Outcome;

    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Outcome, WorkloadError> {
        let mut trainer = Trainer::new(self.cell, self.task, model, self.inputs, self.device)?;
        trainer.ranks = Ranks::new(self.group, &self.cell.setting);
        train_on(trainer, &data, self.inputs, self.started, self.observer)
    }
}

/// Trains and tests a model on data whose loading began at `started`.
fn train_on<M: Network>(
    mut trainer: Trainer<'_, M>,
    data: &Dataset<M::Part>,
    inputs: &Inputs,
    started: Instant,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let (cell, task, device) = (trainer.cell, trainer.task, trainer.device);
    sync(device)?;
    let load_seconds = started.elapsed().as_secs_f64();

    let started = Instant::now();
    progress(observer, device, Phase::WarmUp, 0, 1);
    trainer.ranks.agree(cell.id.as_str(), &data.source.hash)?;
    trainer.ranks.join_gpus(device)?;
    trainer.log.events.push(wall_clock(device)?);
    trainer.warm_up(data)?;
    let warmup_seconds = started.elapsed().as_secs_f64();

    // An asynchronous server does not compute gradients.
    let memory = match trainer.ranks.is_server() {
        true => None,
        false => memory::measure_parts(&mut trainer, data, observer)?,
    };
    let launches = trainer.launches(data)?;
    trainer.start_over(inputs)?;
    trainer.check_reduction(data)?;
    trainer.start_over(inputs)?;
    trainer.run(data, observer)?;
    trainer
        .log
        .events
        .extend(observe::observation_event(&trainer.log.samples.ranges));
    let test = evaluate(&trainer, &data.test, observer, Phase::Evaluate)?;
    if let Some(path) = observer.weights_file().map(Path::to_owned) {
        // The copies on the host are not memory of the training.
        observer.memory_peak_reached();
        save::save(&trainer, &path)?;
    }

    if task.sensitivity && cell.setting.precision() == Precision::True32 {
        let (trials, verdict) = sensitivity::sensitivity(&mut trainer, &data.test, &test.correct, observer)?;
        trainer.log.samples.trials = trials;
        trainer.log.events.push(verdict);
    }

    trainer.ranks.leave_gpus()?;

    let seconds = (load_seconds, warmup_seconds);
    Ok(Outcome {
        launches,
        ..outcome(cell, data, trainer.log, test, seconds, memory)
    })
}
