//! Forward passes of a training: losses with a graph, and predictions without one.

use std::cell::RefCell;

use burn::tensor::{Device, Int, Tensor, TensorData};
use mantissa_precision::{Compute, DropoutMasks, Moments, ParameterSet, Tracked, hash_seed, submit};

use super::trainer::Trainer;
use crate::{
    data::Labelled,
    models::{Batch, Network, Norms, Stage},
};

/// Loss of a micro-batch.
pub(super) struct Loss {
    /// Summed loss over all labels, with its graph.
    pub(super) summed: Tensor<1>,
    /// Number of correct predictions.
    pub(super) hits: Tensor<1, Int>,
    /// Moments with which the batch norms normalized the micro-batch.
    pub(super) moments: Norms,
}

impl<M: Network> Trainer<'_, M> {
    /// Returns the parameters with low-precision copies for forward passes, valid until the next update.
    pub(super) fn working(&self) -> ParameterSet {
        #[cfg(test)]
        super::testing::CASTS.with(|casts| casts.set(casts.get() + 1));
        self.parameters
            .working(&self.compute, |name| self.model.multiplies(name))
    }

    /// Computes the loss of a micro-batch, with its graph.
    pub(super) fn loss(&self, parameters: &Tracked, batch: &Batch<M>) -> Loss {
        #[cfg(test)]
        super::warm_up::record_shape("trained", batch.labels().len());
        let (input, labels) = upload::<M>(batch, self.device);
        let (recorded, masks) = (RefCell::default(), self.dropout_masks(batch));
        let pass = self
            .model
            .pass(parameters, &self.compute, Stage::Training(&recorded, &masks));
        let logits = self.model.forward(&pass, &input);
        let recorded = recorded.into_inner().into_iter();
        let inner = |moments: Moments| Moments {
            mean: moments.mean.inner(),
            variance: moments.variance.inner(),
        };
        let moments = recorded.map(|(name, moments)| (name, inner(moments)));
        self.loss_from_logits(logits, labels, moments.collect())
    }

    /// Computes the loss of a micro-batch from its logits.
    pub(super) fn loss_from_logits(&self, logits: Tensor<2>, labels: Tensor<1, Int>, moments: Norms) -> Loss {
        let predicted = logits.clone().inner().argmax(1).flatten::<1>(0, 1);
        Loss {
            hits: predicted.equal(labels.clone()).int().sum(),
            summed: self.summed_loss(&self.compute, logits, labels),
            moments,
        }
    }

    /// Computes the loss of this training from logits `[n, classes]` and labels `[n]`, summed over the labels. Step and observation minimize the same
    /// loss, the observation in two precisions.
    pub(super) fn summed_loss(
        &self,
        compute: &Compute,
        logits: Tensor<2>,
        labels: Tensor<1, Int>,
    ) -> Tensor<1> {
        compute.cross_entropy_sum(logits, labels)
    }

    /// Returns the dropout masks of the next micro-batch. Also seeds the random generator of the device if the model may use it, so that a
    /// recomputation draws the same numbers. Before, submits pending operations, which must draw their random numbers first.
    pub(super) fn dropout_masks(&self, batch: &Batch<M>) -> DropoutMasks {
        let (seed, first) = (self.cell.seed, self.next_example);
        if self.model.may_draw_random_numbers() {
            // Ignore an error, because reading the results of the step reports it again.
            let _ = submit(self.device);
            self.device.seed(hash_seed(seed, first));
        }
        DropoutMasks::new(seed, first, batch.examples())
    }

    /// Computes the logits of a micro-batch without dropout or graph. Returns the logits and the labels.
    pub(super) fn predict(&self, parameters: &Tracked, batch: &Batch<M>) -> (Tensor<2>, Tensor<1, Int>) {
        #[cfg(test)]
        super::warm_up::record_shape("predicted", batch.labels().len());
        let (input, labels) = upload::<M>(batch, self.device);
        let pass = self
            .model
            .pass(parameters, &self.compute, Stage::Testing(&self.running));
        (self.model.forward(&pass, &input), labels)
    }
}

/// Uploads a micro-batch to the device.
pub(super) fn upload<M: Network>(batch: &Batch<M>, device: &Device) -> (M::Input, Tensor<1, Int>) {
    let labels = batch.labels();
    let labels = Tensor::from_data(TensorData::new(labels.to_vec(), [labels.len()]), device);
    (M::upload(batch, device), labels)
}
