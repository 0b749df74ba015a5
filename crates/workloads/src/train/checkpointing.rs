//! Gradient checkpointing: the forward pass keeps the hidden states between segments of the model, and the backward pass
//! computes each segment again with a graph of its own (arXiv 1604.06174).
//!
//! burn's own strategy decides operation by operation and never computes a matrix product again, which keeps most of the
//! memory.

use burn::{backend::Autodiff, tensor::Tensor};
use mantissa_precision::{GradientSum, ParameterSet, PrecisionBackend};

use super::{Loss, Trainer, upload};
use crate::data::TokenBatch;

/// The hidden states behind each segment: all that the forward pass keeps.
pub(super) fn forward<B: PrecisionBackend>(
    trainer: &Trainer<'_, B>,
    working: &ParameterSet<B>,
    batch: &TokenBatch,
) -> Vec<Tensor<B, 2>> {
    let (input, _) = upload::<B>(batch, trainer.sequence(), trainer.device);
    let parameters = working.freeze();
    let pass = trainer.model.pass(&parameters, &trainer.compute, true);
    let mut hidden: Vec<Tensor<B, 2>> = vec![];
    for segment in 0..trainer.model.segments() {
        trainer.draw_masks_of(segment);
        hidden.push(pass.segment(segment, &input, hidden.last().cloned()));
    }
    hidden
}

/// Adds the gradients of `factor` times a micro-batch's summed loss, given what the forward pass kept.
pub(super) fn backward<B: PrecisionBackend>(
    trainer: &Trainer<'_, B>,
    working: &ParameterSet<B>,
    batch: &TokenBatch,
    mut hidden: Vec<Tensor<B, 2>>,
    factor: f64,
    sum: &mut GradientSum<B>,
) -> Loss<B> {
    let (model, compute) = (&trainer.model, &trainer.compute);
    // The head has nothing to compute again: its graph is made at once.
    let (input, labels) = upload::<Autodiff<B>>(batch, trainer.sequence(), trainer.device);
    let tracked = working.track();
    let pass = model.pass(&tracked, compute, true);
    let last = Tensor::from_inner(hidden.pop().expect("a model has a segment")).require_grad();
    trainer.draw_masks_of(model.segments());
    let loss = trainer.loss_of(pass.head(last.clone(), &input), labels);
    let mut grads = loss.summed.clone().mul_scalar(factor).backward();
    sum.collect(&mut grads, &tracked);
    let mut above = last
        .grad_remove(&mut grads)
        .expect("the head reads the hidden states");

    for segment in (0..model.segments()).rev() {
        let tracked = working.track();
        let pass = model.pass(&tracked, compute, true);
        let before = hidden
            .pop()
            .map(|hidden| Tensor::from_inner(hidden).require_grad());
        trainer.draw_masks_of(segment);
        let after = pass.segment(segment, &input, before.clone());
        // The gradient of this sum by the segment's output is, exactly, the one that comes from above.
        let mut grads = (after * Tensor::from_inner(above.clone())).sum().backward();
        sum.collect(&mut grads, &tracked);
        if let Some(gradient) = before.and_then(|before| before.grad_remove(&mut grads)) {
            above = gradient;
        }
    }
    loss
}
