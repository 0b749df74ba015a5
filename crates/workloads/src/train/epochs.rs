//! Training loop: epochs of optimizer steps, with a validation after each epoch.

use std::time::Instant;

use mantissa_precision::{LossScaler, without_recording};

use super::{
    batch_order::{learning_rate, order},
    evaluate::evaluate,
    observe,
    trainer::Trainer,
};
use crate::{
    Observer, Phase, Share, WorkloadError,
    data::{Dataset, Part},
    models::{Batch, Network},
    outcome::{progress, sync},
};

impl<M: Network> Trainer<'_, M> {
    /// Trains for all epochs of the task.
    pub(super) fn run(
        &mut self,
        data: &Dataset<M::Part>,
        observer: &mut dyn Observer,
    ) -> Result<(), WorkloadError> {
        // Otherwise, the first step would wait for ranks that prepare more slowly.
        self.ranks.barrier()?;
        let started = Instant::now();
        for epoch in 0..self.task.epochs {
            let groups = order(self.cell, self.task, data.train.len(), epoch);
            let total = groups.len() as u64 * u64::from(self.task.epochs);
            let rate = learning_rate(self.cell, self.task, total);
            self.log.totals.train = Share::default();
            let groups = match self.ranks.is_asynchronous() {
                true => {
                    self.train_asynchronously(data, &groups, &rate, observer)?;
                    vec![]
                }
                false => groups,
            };
            for group in groups {
                let begun = Instant::now();
                let learning_rate = rate.at(self.log.totals.steps);
                self.optimizer.set_learning_rate(learning_rate);
                let own = self.ranks.shard(group);
                let micro_batches: Vec<_> = own.iter().map(|indices| data.train.batch(indices)).collect();
                let observation_seconds = self.observe(&micro_batches)?;
                let result = self.step(&micro_batches)?;
                let seconds = begun.elapsed().as_secs_f64() - observation_seconds;
                self.log.totals.windows.push(begun..Instant::now());
                let scale = self.scaler.as_ref().map(LossScaler::scale);
                self.log.record_step(&result, seconds, learning_rate, scale);
                progress(
                    observer,
                    self.device,
                    Phase::Measure,
                    self.log.totals.steps,
                    total,
                );
            }
            if !data.validation.is_empty() {
                let validation = evaluate(self, &data.validation, observer, Phase::Measure)?;
                self.log.record_validation(epoch, validation);
                // Otherwise, the next step would wait for ranks that validate more slowly.
                self.ranks.barrier()?;
            }
        }
        let totals = &mut self.log.totals;
        totals.train_seconds = started.elapsed().as_secs_f64() - totals.observing_seconds;
        if let Some((communication, warnings)) = self.ranks.communication(&self.parameters)? {
            self.log.totals.communication = Some(communication);
            self.log.events.extend(warnings);
        }
        Ok(())
    }

    /// Observes the value ranges of the next step if it is one of the steps to observe. Returns the duration in seconds.
    fn observe(&mut self, micro_batches: &[Batch<M>]) -> Result<f64, WorkloadError> {
        let every = u64::from(self.task.observe_every);
        if every == 0 || !self.log.totals.steps.is_multiple_of(every) {
            return Ok(0.0);
        }
        let begun = Instant::now();
        // Skip the observation once parameters are not finite, because it cannot show the cause any more.
        if self.parameters.all_finite().map_err(WorkloadError::device)? {
            let ranges = without_recording(|| {
                let ranges = observe::observe(self, self.log.totals.steps + 1, micro_batches)?;
                sync(self.device).map(|()| ranges)
            })?;
            self.log.samples.ranges.extend(ranges);
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.log.totals.observing_seconds += seconds;
        Ok(seconds)
    }
}
