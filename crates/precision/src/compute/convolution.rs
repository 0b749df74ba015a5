//! Convolution and pooling of images.

use burn::{
    backend::Dispatch,
    tensor::{Tensor, module::max_pool2d, ops::MaxPoolOptions},
};

use super::Compute;
use crate::{
    autocast::Operation,
    backend::PrecisionBackend,
    convolution::{Convolution, Pass},
    tensor_ops::{primitive, round, tensor_of, wide},
};

impl Compute {
    /// Convolves images `[n, c, h, w]` with filters `[o, c, a, b]` to `[n, o, y, x]`. `padding` adds zeros on every side and must be less
    /// than the edges of the filters.
    pub fn convolution(
        &self,
        images: Tensor<4>,
        filters: Tensor<4>,
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let [images, filters] = self
            .cast(Operation::Convolution, [images, filters])
            .map(primitive);
        let convolution = Convolution {
            pass: Pass::Forward,
            stride,
            padding,
        };
        let output = Dispatch::controlled_convolution(images, filters, convolution, self.mode);
        self.round_to_emulated(tensor_of(output))
    }

    /// Computes the maximum of each window of images `[n, c, h, w]`, padded with −∞: `[n, c, y, x]`. Where windows overlap, the
    /// gradient of a value is summed in at least f32 and rounded once, as in PyTorch on CUDA.
    pub fn max_pool(&self, images: Tensor<4>, edge: usize, stride: usize, padding: usize) -> Tensor<4> {
        let dtype = images.dtype();
        let options = MaxPoolOptions::new([edge; 2])
            .with_stride([stride; 2])
            .with_padding([padding; 2]);
        let pooled = max_pool2d(wide(images), options);
        round(pooled, dtype)
    }
}
