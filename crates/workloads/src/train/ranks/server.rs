//! Synchronous parameter server: rank 0 sums the gradients of all ranks, makes the optimizer step, and sends the parameters back.

use std::time::Instant;

use burn::tensor::Device;
use mantissa_collectives::{Gradient, Traffic, sum_on_server};
use mantissa_precision::{GradientSum, ParameterSet, ScaleChange};

use super::{
    Ranks, failed,
    reduction::{lengths_of, on_device, on_host, wide},
};
use crate::{WorkloadError, models::Network, outcome::sync, train::trainer::Trainer};

impl<M: Network> Trainer<'_, M> {
    /// Makes the optimizer step with the gradients of all ranks on rank 0. Afterwards, all ranks have its parameters and loss scale.
    pub(in crate::train) fn step_on_server(
        &mut self,
        gradients: GradientSum,
    ) -> Result<Option<ScaleChange>, WorkloadError> {
        let sum = self
            .ranks
            .sum_on_server(gradients, &self.parameters, self.device)?;
        let is_server = sum.is_some();
        let change = sum.map(|sum| self.update(sum)).transpose()?.flatten();
        let was_skipped = matches!(change, Some(ScaleChange::BackedOff(_) | ScaleChange::Skipped));
        let [skips] = self.ranks.sum([usize::from(was_skipped)])?;
        self.ranks.broadcast(&mut self.parameters, self.device)?;
        Ok(match &mut self.scaler {
            Some(scaler) if !is_server => Some(scaler.update(skips == 0)),
            _ => change,
        })
    }
}

impl Ranks<'_> {
    /// Returns the sum of the gradients of all ranks on rank 0, and `None` on the others. It is rounded as by [`Self::reduce`], and added from
    /// the last rank to the first.
    fn sum_on_server(
        &mut self,
        gradients: GradientSum,
        parameters: &ParameterSet,
        device: &Device,
    ) -> Result<Option<GradientSum>, WorkloadError> {
        // The computation of the gradients is not communication.
        sync(device)?;
        let lengths = self.lengths(&gradients, parameters)?;
        let begun = Instant::now();
        let wide = wide(parameters);
        let own = on_host(gradients, &lengths, self.format, wide)?;
        let group = self.group();
        // Discard the messages of other operations.
        group.take_traffic();
        let sum = sum_on_server(group, &own).map_err(failed)?;
        let sent = group.take_traffic();
        self.counters.add_traffic(sent);
        if sum.is_none() {
            self.counters.expected += Traffic::of_messages(1, &own);
        }
        self.counters.reductions += 1;
        let sum = sum.map(|sum| GradientSum::from_parts(on_device(sum, &lengths, wide, device)));
        sync(device)?;
        self.counters.seconds += begun.elapsed().as_secs_f64();
        Ok(sum)
    }

    /// Replaces the parameters of all ranks by those of rank 0.
    pub(super) fn broadcast(
        &mut self,
        parameters: &mut ParameterSet,
        device: &Device,
    ) -> Result<(), WorkloadError> {
        // The optimizer step is not communication.
        sync(device)?;
        let begun = Instant::now();
        let mut values = self.values(parameters)?;
        let group = self.group();
        group.take_traffic();
        group.broadcast(0, &mut values).map_err(failed)?;
        let (sent, rank, workers) = (group.take_traffic(), group.rank(), group.size() - 1);
        self.counters.add_traffic(sent);
        match rank {
            0 => self.counters.expected += Traffic::of_messages(workers, &values),
            _ => replace(parameters, values, device),
        }
        sync(device)?;
        self.counters.seconds += begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Copies the parameters to the host, in their own format.
    pub(super) fn values(&self, parameters: &ParameterSet) -> Result<Gradient, WorkloadError> {
        let values = parameters.iter().map(|(_, value)| Some(value.clone()));
        let values = GradientSum::from_parts(values.collect());
        on_host(
            values,
            &lengths_of_all(parameters),
            self.parameter_format,
            wide(parameters),
        )
    }
}

/// Replaces the parameters by values that were copied from another rank.
pub(super) fn replace(parameters: &mut ParameterSet, values: Gradient, device: &Device) {
    let values = on_device(values, &lengths_of_all(parameters), wide(parameters), device);
    parameters.replace(values.into_iter().flatten());
}

fn lengths_of_all(parameters: &ParameterSet) -> Vec<Option<usize>> {
    lengths_of(&vec![true; parameters.len()], parameters)
}
