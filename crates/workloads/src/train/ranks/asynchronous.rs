//! Asynchronous parameter server: rank 0 applies each gradient when it arrives. The other ranks are its workers.
//!
//! The server sends the parameters with a *task*, the micro-batches of the next optimizer step. A worker returns their gradient. Meanwhile the
//! server applies gradients of other workers, so the gradient is computed from older parameters than those that it changes.

use std::{collections::VecDeque, time::Instant};

use mantissa_collectives::Traffic;
use mantissa_precision::{GradientSum, LearningRate, LossScaler, ScaleChange};

use super::{
    Ranks, failed,
    message::{GradientMessage, TaskMessage},
    reduction::{lengths_of, on_device, on_host, wide},
    server::replace,
    staleness::Schedule,
};
use crate::{
    Observer, Phase, WorkloadError,
    data::{Dataset, Labelled, Part},
    models::{Batch, Network},
    outcome::{progress, sync},
    train::{log::StepResult, step::joined, trainer::Trainer},
};

/// Micro-batches of an optimizer step, as indices of examples.
type Group = Vec<Vec<usize>>;

impl<M: Network> Trainer<'_, M> {
    /// Trains on an epoch of micro-batches, of which the server gives one group to a worker at a time. Afterwards, all ranks have the
    /// parameters of the server.
    pub(in crate::train) fn train_asynchronously(
        &mut self,
        data: &Dataset<M::Part>,
        groups: &[Group],
        rate: &LearningRate,
        observer: &mut dyn Observer,
    ) -> Result<(), WorkloadError> {
        if !self.running.is_empty() {
            let message =
                "the server has no running statistics of batch norms, set `reduce` to another value";
            return Err(WorkloadError::ranks(message));
        }
        let begun = Instant::now();
        // Discard the messages of other operations.
        self.ranks.group().take_traffic();
        match self.ranks.rank() {
            0 => self.serve(groups, rate, observer)?,
            _ => self.work(data, groups, observer)?,
        }
        let sent = self.ranks.group().take_traffic();
        self.ranks.counters.add_traffic(sent);
        self.ranks.broadcast(&mut self.parameters, self.device)?;
        self.ranks.counters.working_seconds += begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Sends tasks to the workers and applies their gradients, until the gradients of all groups are applied.
    fn serve(
        &mut self,
        groups: &[Group],
        rate: &LearningRate,
        observer: &mut dyn Observer,
    ) -> Result<(), WorkloadError> {
        let mut schedule = Schedule::new(self.cell.setting.staleness());
        let mut idle: VecDeque<usize> = (1..self.ranks.size()).collect();
        let mut arrived: Vec<(usize, Vec<u8>)> = vec![];
        let mut tasks = groups.iter().enumerate();
        let total = groups.len() as u64 * u64::from(self.task.epochs);
        let mut begun = Instant::now();
        loop {
            while schedule.may_read()
                && let Some(worker) = idle.front().copied()
                && let Some((group, micro_batches)) = tasks.next()
            {
                idle.pop_front();
                self.send_task(worker, group)?;
                self.next_example += micro_batches.iter().map(Vec::len).sum::<usize>() as u64;
                schedule.read(worker);
            }
            let next = arrived.iter().position(|(worker, _)| schedule.may_apply(*worker));
            if let Some(index) = next {
                let (worker, message) = arrived.remove(index);
                let staleness = schedule.apply(worker) as usize;
                let histogram = &mut self.log.samples.staleness;
                histogram.resize(histogram.len().max(staleness + 1), 0);
                histogram[staleness] += 1;
                let learning_rate = rate.at(self.log.totals.steps);
                self.optimizer.set_learning_rate(learning_rate);
                let result = self.apply(&message)?;
                let now = Instant::now();
                self.log.totals.windows.push(begun..now);
                let scale = self.scaler.as_ref().map(LossScaler::scale);
                let seconds = now.duration_since(begun).as_secs_f64();
                self.log.record_step(&result, seconds, learning_rate, scale);
                begun = now;
                progress(
                    observer,
                    self.device,
                    Phase::Measure,
                    self.log.totals.steps,
                    total,
                );
                idle.push_back(worker);
            } else if schedule.is_idle() {
                break;
            } else {
                arrived.push(self.ranks.group().receive().map_err(failed)?);
            }
        }
        for worker in 1..self.ranks.size() {
            self.ranks.send(worker, &TaskMessage::END)?;
        }
        Ok(())
    }

    fn send_task(&mut self, worker: usize, group: usize) -> Result<(), WorkloadError> {
        let task = TaskMessage {
            group: group as u64,
            first_example: self.next_example,
            scale: self.scaler.as_ref().map_or(1.0, LossScaler::scale),
            parameters: self.ranks.values(&self.parameters)?,
        };
        self.ranks.send(worker, &task.encode())
    }

    /// Makes an optimizer step with the gradient of a worker.
    pub(super) fn apply(&mut self, message: &[u8]) -> Result<StepResult, WorkloadError> {
        let message = GradientMessage::decode(message, self.parameters.len(), self.ranks.format);
        let lengths = lengths_of(&message.present, &self.parameters);
        let sums = on_device(message.gradient, &lengths, wide(&self.parameters), self.device);
        let mut gradients = GradientSum::from_parts(sums);
        let scale = self.scaler.as_ref().map_or(1.0, LossScaler::scale);
        let change = if message.scale > scale && !gradients.all_finite().map_err(WorkloadError::device)? {
            // The scale was already reduced after the worker read it.
            Some(ScaleChange::Skipped)
        } else {
            if message.scale != scale {
                gradients.unscale(message.scale / scale);
            }
            self.update(gradients)?
        };
        sync(self.device)?;
        self.ranks.counters.reductions += 1;
        Ok(StepResult {
            loss: message.loss,
            hits: message.hits,
            labels: message.labels,
            examples: message.examples,
            scale: change,
            norm: self.take_norm()?,
        })
    }

    /// Computes the gradients of the tasks that the server sends, until the end of the epoch.
    fn work(
        &mut self,
        data: &Dataset<M::Part>,
        groups: &[Group],
        observer: &mut dyn Observer,
    ) -> Result<(), WorkloadError> {
        let mut done = 0;
        loop {
            let begun = Instant::now();
            let (_, message) = self.ranks.group().receive().map_err(failed)?;
            let task = TaskMessage::decode(&message, self.ranks.parameter_format);
            let Some(task) = task else {
                return Ok(());
            };
            replace(&mut self.parameters, task.parameters, self.device);
            sync(self.device)?;
            self.ranks.counters.seconds += begun.elapsed().as_secs_f64();
            let group = groups[task.group as usize].iter();
            let micro_batches: Vec<_> = group.map(|indices| data.train.batch(indices)).collect();
            let message = self.gradient_of(&micro_batches, task.first_example, task.scale)?;
            let begun = Instant::now();
            self.ranks.send(0, &message.encode())?;
            self.ranks.counters.seconds += begun.elapsed().as_secs_f64();
            done += 1;
            progress(observer, self.device, Phase::Measure, done, groups.len() as u64);
        }
    }

    /// Computes the gradient of the mean loss of micro-batches. `first` is the number of the first example in the training.
    fn gradient_of(
        &mut self,
        micro_batches: &[Batch<M>],
        first: u64,
        scale: f64,
    ) -> Result<GradientMessage, WorkloadError> {
        let labels: usize = micro_batches.iter().map(|batch| batch.labels().len()).sum();
        let share = 1.0 / labels as f64;
        let batch = u64::from(self.cell.setting.batch());
        let accumulated = self.accumulate(micro_batches, share * scale, |index| first + index as u64 * batch);
        sync(self.device)?;
        let begun = Instant::now();
        let present: Vec<bool> = accumulated.gradients.iter().map(|sum| sum.is_some()).collect();
        let lengths = lengths_of(&present, &self.parameters);
        let wide = wide(&self.parameters);
        let gradient = on_host(accumulated.gradients, &lengths, self.ranks.format, wide)?;
        self.ranks.counters.seconds += begun.elapsed().as_secs_f64();
        Ok(GradientMessage {
            labels: labels as u64,
            examples: micro_batches.iter().map(Labelled::examples).sum::<usize>() as u64,
            hits: joined::<i64, _>(accumulated.hits)?.iter().sum::<i64>() as u64,
            loss: share * joined::<f64, _>(accumulated.losses)?.iter().sum::<f64>(),
            scale,
            present,
            gradient,
        })
    }
}

impl Ranks<'_> {
    /// Sends a message to another rank.
    fn send(&mut self, to: usize, message: &[u8]) -> Result<(), WorkloadError> {
        self.counters.expected += Traffic {
            messages: 1,
            bytes: message.len() as u64,
        };
        self.group().send(to, message).map_err(failed)
    }
}
