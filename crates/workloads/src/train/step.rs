//! Optimizer step over a group of micro-batches, on one or several ranks.

use burn::tensor::{Element, Int, Tensor, kind::Basic};
use mantissa_precision::{GradientSum, LossScaler, ParameterSet, ScaleChange, micro_batch_momentum};

use super::{checkpointing, forward::Loss, log::StepResult, trainer::Trainer};
use crate::{
    WorkloadError,
    data::Labelled,
    models::{Batch, Network, Norms},
    outcome::{read, sync},
};

/// Reads vectors from the device and concatenates their values. A rank has none in a step with fewer micro-batches than ranks.
pub(super) fn joined<E: Element, K: Basic>(vectors: Vec<Tensor<1, K>>) -> Result<Vec<E>, WorkloadError> {
    match vectors.is_empty() {
        true => Ok(vec![]),
        false => read(Tensor::cat(vectors, 0)),
    }
}

/// Gradients and results of several micro-batches.
pub(super) struct Accumulated {
    pub(super) gradients: GradientSum,
    /// Summed loss of each micro-batch.
    pub(super) losses: Vec<Tensor<1>>,
    /// Number of correct predictions of each micro-batch.
    pub(super) hits: Vec<Tensor<1, Int>>,
}

/// Momentum of running statistics, as in PyTorch.
const BATCH_NORM_MOMENTUM: f64 = 0.1;

impl<M: Network> Trainer<'_, M> {
    /// Runs an optimizer step over the micro-batches of this rank and of the other ranks, and reads the results from the device.
    pub(super) fn step(&mut self, micro_batches: &[Batch<M>]) -> Result<StepResult, WorkloadError> {
        let labels = micro_batches.iter().map(|batch| batch.labels().len()).sum();
        let examples = micro_batches.iter().map(Labelled::examples).sum();
        let [labels, examples] = self.ranks.sum([labels, examples])?;
        let scale = self.scaler.as_ref().map_or(1.0, LossScaler::scale);
        #[cfg(test)]
        super::warm_up::record_step(micro_batches.len(), self.optimizer.state().next().is_some());
        let share = 1.0 / labels as f64;
        let first = self.next_example;
        let batch = self.cell.setting.batch() as usize;
        let offsets: Vec<usize> = (0..micro_batches.len())
            .map(|index| self.ranks.position(index) * batch)
            .collect();
        let Accumulated {
            gradients,
            losses,
            hits,
        } = self.accumulate(micro_batches, share * scale, |index| {
            first + offsets[index] as u64
        });
        self.next_example = first + examples as u64;
        let change = if self.ranks.has_server() {
            self.step_on_server(gradients)?
        } else {
            let gradients = self.ranks.reduce(gradients, &self.parameters, self.device)?;
            self.update(gradients)?
        };
        sync(self.device)?;
        let losses: Vec<f64> = joined(losses)?;
        let norm = self.take_norm()?;
        let hits: Vec<i64> = joined(hits)?;
        let losses = self.ranks.losses(losses)?;
        let [hits] = self.ranks.sum([hits.iter().sum::<i64>() as usize])?;
        Ok(StepResult {
            loss: share * losses.iter().sum::<f64>(),
            hits: hits as u64,
            labels: labels as u64,
            examples: examples as u64,
            scale: change,
            norm,
        })
    }

    /// Accumulates the gradients of `factor` times the summed losses of micro-batches. `first_example` returns the number of the
    /// first example of a micro-batch in the training, on which the dropout masks depend.
    pub(super) fn accumulate(
        &mut self,
        micro_batches: &[Batch<M>],
        factor: f64,
        first_example: impl Fn(usize) -> u64,
    ) -> Accumulated {
        let mut sums = Accumulated {
            gradients: GradientSum::new(self.parameters.len()),
            losses: vec![],
            hits: vec![],
        };
        let working = self.working();
        for (index, batch) in micro_batches.iter().enumerate() {
            self.next_example = first_example(index);
            let loss = self.backward(&working, batch, factor, &mut sums.gradients);
            sums.losses.push(loss.summed.inner());
            sums.hits.push(loss.hits);
            self.update_running_statistics(loss.moments, micro_batches.len());
        }
        sums
    }

    /// Updates the parameters with accumulated gradients, unless they overflowed.
    pub(super) fn update(&mut self, gradients: GradientSum) -> Result<Option<ScaleChange>, WorkloadError> {
        let (optimizer, parameters) = (&mut self.optimizer, &mut self.parameters);
        match &mut self.scaler {
            Some(scaler) => {
                let change = scaler.step(optimizer, parameters, gradients);
                change.map(Some).map_err(WorkloadError::device)
            }
            None => {
                optimizer.step(parameters, gradients);
                Ok(None)
            }
        }
    }

    /// Takes the norm of the gradients of the last update before clipping; `None` without clipping.
    pub(super) fn take_norm(&mut self) -> Result<Option<f64>, WorkloadError> {
        let norm: Option<Vec<f64>> = self.optimizer.take_norm().map(read).transpose()?;
        Ok(norm.and_then(|norm| norm.first().copied()))
    }

    /// Updates the running statistics with the moments of a micro-batch. `micro_batches` is the number of micro-batches per optimizer step.
    pub(super) fn update_running_statistics(&mut self, moments: Norms, micro_batches: usize) {
        let rule = self.cell.setting.batchnorm_momentum();
        let momentum = micro_batch_momentum(rule, BATCH_NORM_MOMENTUM, micro_batches as u32);
        for (name, moments) in moments {
            let mut norms = self.running.iter_mut();
            let (_, running) = norms
                .find(|(norm, _)| *norm == name)
                .unwrap_or_else(|| panic!("`{name}` is not a batch norm of the model"));
            *running = running.clone().follow(moments, momentum);
        }
    }

    /// Adds the gradients of `factor` times a micro-batch's summed loss to `sum`, and returns the loss.
    pub(super) fn backward(
        &self,
        working: &ParameterSet,
        batch: &Batch<M>,
        factor: f64,
        sum: &mut GradientSum,
    ) -> Loss {
        if self.cell.setting.checkpointing() {
            let saved = checkpointing::forward(self, working, batch);
            return checkpointing::backward(self, working, batch, saved, factor, sum);
        }
        let parameters = working.track();
        let loss = self.loss(&parameters, batch);
        sum.add(loss.summed.clone().mul_scalar(factor), &parameters);
        loss
    }
}
