//! Gradient checkpointing: the forward pass saves only the hidden states between segments of the model and the batch-norm moments. The backward
//! pass recomputes each segment with its own graph (arXiv 1604.06174).
//!
//! burn's built-in checkpointing is not used: it decides per operation and never recomputes a matmul, so it saves little memory.

use std::cell::RefCell;

use burn::tensor::Tensor;
use mantissa_precision::{GradientSum, ParameterSet};

use super::{
    forward::{Loss, upload},
    trainer::Trainer,
};
use crate::models::{Batch, Network, Norms, Stage};

/// Tensors that the forward pass saves.
pub(super) struct SavedActivations {
    /// Hidden states after each segment.
    hidden: Vec<Tensor<2>>,
    moments: Norms,
}

/// Runs the forward pass without a graph and saves the hidden states after each segment.
pub(super) fn forward<M: Network>(
    trainer: &Trainer<'_, M>,
    working: &ParameterSet,
    batch: &Batch<M>,
) -> SavedActivations {
    let model = &trainer.model;
    let (input, _) = upload::<M>(batch, trainer.device);
    let parameters = working.freeze();
    let (recorded, masks) = (RefCell::default(), trainer.dropout_masks(batch));
    let pass = model.pass(&parameters, &trainer.compute, Stage::Training(&recorded, &masks));
    let mut hidden: Vec<Tensor<2>> = vec![];
    for segment in 0..model.segments() {
        pass.start_segment(segment);
        hidden.push(model.segment(&pass, segment, &input, hidden.last().cloned()));
    }
    SavedActivations {
        hidden,
        moments: recorded.into_inner(),
    }
}

/// Recomputes each segment and adds the gradients of `factor` times a micro-batch's summed loss to `sum`.
pub(super) fn backward<M: Network>(
    trainer: &Trainer<'_, M>,
    working: &ParameterSet,
    batch: &Batch<M>,
    saved: SavedActivations,
    factor: f64,
    sum: &mut GradientSum,
) -> Loss {
    let (model, compute) = (&trainer.model, &trainer.compute);
    let SavedActivations { mut hidden, moments } = saved;
    // Ignored: the recomputation records the same moments again.
    let (recorded, masks) = (RefCell::default(), trainer.dropout_masks(batch));
    // The head is computed here for the first time, with a graph.
    let (input, labels) = upload::<M>(batch, trainer.device);
    let tracked = working.track();
    let pass = model.pass(&tracked, compute, Stage::Training(&recorded, &masks));
    let last = Tensor::from_inner(hidden.pop().expect("every model has a segment")).require_grad();
    pass.start_segment(model.segments());
    let loss = trainer.loss_from_logits(model.head(&pass, last.clone(), &input), labels, moments);
    let mut grads = loss.summed.clone().mul_scalar(factor).backward();
    sum.collect(&mut grads, &tracked);
    let mut output_gradient = last
        .grad_remove(&mut grads)
        .expect("the head reads the hidden states");

    for segment in (0..model.segments()).rev() {
        let tracked = working.track();
        let pass = model.pass(&tracked, compute, Stage::Training(&recorded, &masks));
        let before = hidden
            .pop()
            .map(|hidden| Tensor::from_inner(hidden).require_grad());
        pass.start_segment(segment);
        let after = model.segment(&pass, segment, &input, before.clone());
        // The gradient of this sum with respect to the segment's output equals `output_gradient` exactly.
        let mut grads = (after * output_gradient.clone()).sum().backward();
        sum.collect(&mut grads, &tracked);
        if let Some(gradient) = before.and_then(|before| before.grad_remove(&mut grads)) {
            output_gradient = gradient;
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use mantissa_core::Axis;
    use mantissa_precision::GradientSum;

    use crate::{
        data::Part,
        train::testing::{cell, data, trainer},
    };

    #[test]
    fn gradients_are_bitwise_equal_with_and_without_checkpointing() {
        let (data, _cache) = data(8, 0, 3);
        for precision in ["64-true", "32-true", "16-mixed", "bf16-mixed", "bf16-true"] {
            let gradients = |checkpointing, batches: &[[usize; 4]]| {
                let axes = [(Axis::Precision, precision), (Axis::Checkpointing, checkpointing)];
                let (cell, task) = cell(&axes, false);
                let trainer = trainer(&cell, &task, &data);
                let working = trainer.working();
                let mut sum = GradientSum::new(trainer.parameters.len());
                for batch in batches {
                    trainer.backward(&working, &data.train.batch(batch), 0.125, &mut sum);
                }
                let bits = |value: &burn::tensor::Tensor<1>| {
                    let data = value.to_data();
                    data.iter::<f64>().map(f64::to_bits).collect::<Vec<_>>()
                };
                let sums: Vec<_> = sum.iter().map(|sum| sum.map(bits)).collect();
                sums
            };
            let (one, two) = ([[0, 1, 2, 3]], [[0, 1, 2, 3], [4, 5, 6, 7]]);
            assert!(gradients("on", &two) == gradients("off", &two), "{precision}");
            assert!(
                gradients("on", &one) != gradients("on", &two),
                "{precision}: the second micro-batch does not change the gradients"
            );
        }
    }
}
