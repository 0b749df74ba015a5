//! Model that is ready to predict micro-batches.

use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::Precision;
use mantissa_precision::{Compute, Tracked};

use super::predictions::Predictions;
use crate::{
    WorkloadError,
    data::Labelled,
    initial_state::InitialState,
    models::{Batch, Network, Norms, Stage},
    outcome::{allocator, read},
};

/// Model that is ready to predict.
pub(super) struct Predictor<'a, M: Network> {
    model: &'a M,
    parameters: Tracked,
    running: &'a Norms,
    compute: Compute,
    device: &'a Device,
}

impl<'a, M: Network> Predictor<'a, M> {
    /// Creates a predictor, including the low-precision parameter copies that its forward passes read.
    pub(super) fn new(
        model: &'a M,
        initial_state: &'a InitialState,
        compute: Compute,
        device: &'a Device,
    ) -> Self {
        let working = initial_state
            .parameters
            .working(&compute, |name| model.multiplies(name));
        Self {
            model,
            parameters: working.freeze(),
            running: &initial_state.running,
            compute,
            device,
        }
    }

    /// Predicts a micro-batch. The window lasts from the upload until the predictions are on the host.
    pub(super) fn predict(&self, batch: &Batch<M>) -> Result<Predictions, WorkloadError> {
        let begun = Instant::now();
        let input = M::upload(batch, self.device);
        let pass = self
            .model
            .pass(&self.parameters, &self.compute, Stage::Testing(self.running));
        let logits = self.model.forward(&pass, &input);
        let predicted = read(logits.clone().argmax(1))?;
        let window = begun..Instant::now();
        // Read the allocator while the logits are still in memory.
        let allocator = allocator(self.device);
        let labels = batch.labels();
        let labels = Tensor::from_data(TensorData::new(labels.to_vec(), [labels.len()]), self.device);
        // The logits are computed in the setting's precision, but the loss must not be rounded to a 16-bit format.
        let losses = Compute::from(loss_precision(self.compute.precision())).cross_entropies(logits, labels);
        Ok(Predictions {
            predicted,
            losses: read(losses)?,
            window,
            allocator,
        })
    }
}

/// Returns the precision in which the loss is computed.
fn loss_precision(precision: Precision) -> Precision {
    match precision {
        Precision::True64 => Precision::True64,
        _ => Precision::True32,
    }
}
