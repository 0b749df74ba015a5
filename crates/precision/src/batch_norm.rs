//! Batch norm of images (arXiv 1502.03167), with running statistics that do not depend on the number of micro-batches.

use burn::{
    backend::Dispatch,
    tensor::{DType, Device, Tensor},
};
use mantissa_core::BatchNormMomentum;

use crate::{
    Compute,
    autocast::Operation,
    backend::PrecisionBackend,
    dtypes::intermediate_dtype,
    tensor_ops::{round, tensor_of, wide},
};

/// Mean and variance of each channel, `[c]` each, in f32 or f64.
#[derive(Debug, Clone)]
pub struct Moments {
    /// Means.
    pub mean: Tensor<1>,
    /// Variances. Those of a batch are divided by n − 1, as in PyTorch's running statistics.
    pub variance: Tensor<1>,
}

impl Moments {
    /// Returns the initial running statistics: mean 0 and variance 1.
    pub fn unit(channels: usize, dtype: DType, device: &Device) -> Self {
        Self {
            mean: Tensor::zeros([channels], (device, dtype)),
            variance: Tensor::ones([channels], (device, dtype)),
        }
    }

    /// Returns the running statistics after a batch: `momentum · batch + (1 − momentum) · self`.
    pub fn follow(self, batch: Self, momentum: f64) -> Self {
        let mix = |running: Tensor<1>, other| running * (1.0 - momentum) + other * momentum;
        Self {
            mean: mix(self.mean, batch.mean),
            variance: mix(self.variance, batch.variance),
        }
    }
}

/// Returns the momentum `m` for each of `k` micro-batches, given the `momentum` for a whole batch. `Scaled` solves
/// `(1 − m)ᵏ = 1 − momentum`, so that the running statistics decay per batch as without micro-batches.
pub fn micro_batch_momentum(rule: BatchNormMomentum, momentum: f64, micro_batches: u32) -> f64 {
    match rule {
        BatchNormMomentum::Keep => momentum,
        BatchNormMomentum::Scaled => -(((-momentum).ln_1p() / f64::from(micro_batches)).exp_m1()),
    }
}

impl Compute {
    /// Computes batch norm of `[n, c, h, w]` in training: subtracts each channel's mean over the batch, divides by its
    /// standard deviation, multiplies by `scale` and adds `shift`, `[c]` each. Also returns the moments of the batch,
    /// detached from the graph, to update the running statistics.
    ///
    /// 16-bit formats are computed in f32, and the result is rounded once.
    ///
    /// # Panics
    /// If a channel has fewer than two values, because their variance is undefined.
    pub fn batch_norm_training(
        &self,
        input: Tensor<4>,
        scale: Tensor<1>,
        shift: Tensor<1>,
        epsilon: f64,
    ) -> (Tensor<4>, Moments) {
        let [n, c, h, w] = input.dims();
        let count = n * h * w;
        assert!(
            count > 1,
            "batch norm needs at least 2 values per channel, found {count}"
        );
        let [input] = self.cast(Operation::BatchNorm, [input]);
        let dtype = input.dtype();
        let rows = wide(input).swap_dims(0, 1).reshape([c, count]);
        let mean = rows.clone().mean_dim(1);
        let centred = rows - mean.clone();
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        let unbiased = count as f64 / (count as f64 - 1.0);
        let moments = Moments {
            mean: mean.detach().squeeze_dim(1),
            variance: variance.clone().detach().squeeze_dim(1) * unbiased,
        };
        let normal = centred / (variance + epsilon).sqrt();
        let output = affine(normal, scale, shift).reshape([c, n, h, w]).swap_dims(0, 1);
        (round(output, dtype), moments)
    }

    /// Computes batch norm of `[n, c, h, w]` with running statistics, as in evaluation.
    pub fn batch_norm(
        &self,
        input: Tensor<4>,
        scale: Tensor<1>,
        shift: Tensor<1>,
        running: &Moments,
        epsilon: f64,
    ) -> Tensor<4> {
        let [n, c, h, w] = input.dims();
        let [input] = self.cast(Operation::BatchNorm, [input]);
        let format = intermediate_dtype(input.dtype());
        let as_wide = |values: Tensor<1>| round(values, format);
        let deviation = (as_wide(running.variance.clone()) + epsilon).sqrt();
        let statistics = [
            as_wide(running.mean.clone()),
            deviation,
            as_wide(scale),
            as_wide(shift),
        ];
        // Matmuls leave images channels-last in memory: this permutation does not copy.
        let rows = input.permute([0, 2, 3, 1]).reshape([n * h * w, c]);
        let [mean, deviation, scale, shift] = statistics.map(Tensor::into_dispatch);
        let rows = rows.into_dispatch();
        let output: Tensor<2> = tensor_of(Dispatch::normalize_columns(rows, mean, deviation, scale, shift));
        output.reshape([n, h, w, c]).permute([0, 3, 1, 2])
    }
}

/// Computes `rows · scale + shift`, with one row per channel.
fn affine(rows: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<2> {
    let dtype = rows.dtype();
    let column = |values: Tensor<1>| round(values, dtype).unsqueeze_dim::<2>(1);
    rows * column(scale) + column(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_momentum_of_micro_batches_equals_that_of_a_whole_batch() {
        for (momentum, micro_batches) in [(0.1, 1), (0.1, 4), (0.5, 7), (1.0, 3), (0.0, 2), (1e-9, 1000)] {
            let each = micro_batch_momentum(BatchNormMomentum::Scaled, momentum, micro_batches);
            let kept = (1.0 - each).powi(micro_batches.cast_signed());
            assert!(
                (kept - (1.0 - momentum)).abs() < 1e-12,
                "{momentum}, {micro_batches}: {kept}"
            );
            let unscaled = micro_batch_momentum(BatchNormMomentum::Keep, momentum, micro_batches);
            assert_eq!(unscaled, momentum);
        }
        let small = micro_batch_momentum(BatchNormMomentum::Scaled, 1e-12, 4);
        assert!((small / 2.5e-13 - 1.0).abs() < 1e-9, "{small:e}");
    }
}
