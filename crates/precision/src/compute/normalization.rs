//! Softmax, layer norm and root-mean-square norm.

use burn::{backend::Dispatch, tensor::Tensor};

use super::Compute;
use crate::{
    autocast::Operation,
    backend::PrecisionBackend,
    tensor_ops::{primitive, tensor_of},
};

impl Compute {
    /// Computes softmax over the last dimension.
    pub fn softmax<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [input] = self.cast(Operation::Softmax, [input]).map(primitive);
        tensor_of(Dispatch::softmax_last(input))
    }

    /// Computes layer norm over the last dimension; `scale` and `shift` are `[n]`.
    pub fn layer_norm<const D: usize>(
        &self,
        input: Tensor<D>,
        scale: Tensor<1>,
        shift: Tensor<1>,
        epsilon: f64,
    ) -> Tensor<D> {
        let [input] = self.cast(Operation::LayerNorm, [input]).map(primitive);
        let (output, ..) = Dispatch::normalize_last(input, primitive(scale), primitive(shift), epsilon);
        tensor_of(output)
    }

    /// Computes root-mean-square norm over the last dimension; `scale` is `[n]`.
    pub fn rms_norm<const D: usize>(&self, input: Tensor<D>, scale: Tensor<1>, epsilon: f64) -> Tensor<D> {
        let [input] = self.cast(Operation::RmsNorm, [input]).map(primitive);
        let (output, _) = Dispatch::rms_normalize_last(input, primitive(scale), epsilon);
        tensor_of(output)
    }
}
