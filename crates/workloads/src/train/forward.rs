//! Forward passes of a training: losses with a graph, and predictions without one.

use std::cell::RefCell;

use burn::tensor::{Device, Int, Tensor, TensorData};
use mantissa_precision::{Compute, Moments, ParameterSet, Tracked, submit};

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
        let recorded = RefCell::default();
        let pass = self
            .model
            .pass(parameters, &self.compute, Stage::Training(&recorded));
        let seed_dropout = |segment| self.seed_dropout(segment);
        let logits = self.model.forward(&pass, &input, seed_dropout);
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

    /// Seeds the dropout masks of a segment. Each segment of each micro-batch has its own seed, so that the recomputation of a checkpointed segment
    /// draws the same masks. Submits pending operations first, because they must draw their random numbers before the seed changes.
    pub(super) fn seed_dropout(&self, segment: u32) {
        if !self.model.has_dropout() {
            return;
        }
        // Ignore an error, because reading the results of the step reports it again.
        let _ = submit(self.device);
        let number = (self.micro_batches << 16) + u64::from(segment);
        self.device.seed(stream_seed(self.cell.seed, number));
    }

    /// Computes the logits of a micro-batch without dropout or graph. Returns the logits and the labels.
    pub(super) fn predict(&self, parameters: &Tracked, batch: &Batch<M>) -> (Tensor<2>, Tensor<1, Int>) {
        #[cfg(test)]
        super::warm_up::record_shape("predicted", batch.labels().len());
        let (input, labels) = upload::<M>(batch, self.device);
        let pass = self
            .model
            .pass(parameters, &self.compute, Stage::Testing(&self.running));
        (self.model.forward(&pass, &input, |_| ()), labels)
    }
}

/// Derives an independent seed for a numbered stream (finalizer of SplitMix64).
fn stream_seed(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Uploads a micro-batch to the device.
pub(super) fn upload<M: Network>(batch: &Batch<M>, device: &Device) -> (M::Input, Tensor<1, Int>) {
    let labels = batch.labels();
    let labels = Tensor::from_data(TensorData::new(labels.to_vec(), [labels.len()]), device);
    (M::upload(batch, device), labels)
}
