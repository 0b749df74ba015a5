//! Cross-entropy of classes.

use burn::tensor::{Int, Tensor, activation};

use super::Compute;
use crate::{
    autocast::Operation,
    tensor_ops::{ordered_sum, round, wide},
};

impl Compute {
    /// Computes the summed cross-entropy of `logits` `[n, classes]` against `targets` `[n]`, in nats.
    pub fn cross_entropy_sum(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let log_likelihoods = self.target_log_probabilities(logits, targets);
        let format = log_likelihoods.dtype();
        round(ordered_sum(wide(log_likelihoods).flatten(0, 1)), format).neg()
    }

    /// Computes the cross-entropy of each row of `logits` `[n, classes]` against `targets` `[n]`, in nats, without the
    /// sum of [`Self::cross_entropy_sum`].
    pub fn cross_entropies(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        self.target_log_probabilities(logits, targets)
            .flatten::<1>(0, 1)
            .neg()
    }

    /// Returns the log-probability of each row's target, `[n, 1]`.
    fn target_log_probabilities(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<2> {
        let [logits] = self.cast(Operation::CrossEntropySum, [logits]);
        let format = logits.dtype();
        let log_probabilities = round(activation::log_softmax(wide(logits), 1), format);
        log_probabilities.gather(1, targets.unsqueeze_dim(1))
    }
}
