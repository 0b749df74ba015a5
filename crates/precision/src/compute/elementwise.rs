//! Activations, dropout, and elementwise addition and multiplication.

use burn::{
    backend::Dispatch,
    tensor::{DType, Distribution, Tensor, activation},
};
use mantissa_core::Gelu;

use super::Compute;
use crate::{
    autocast::Operation,
    backend::PrecisionBackend,
    tensor_ops::{primitive, round, tensor_of, times, wide},
};

impl Compute {
    /// Computes GELU with the exact error function.
    pub fn gelu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.gelu_as(Gelu::Exact, input)
    }

    /// Computes GELU in one of its forms; [`Gelu::TanhPacked`] supports only 16-bit formats.
    pub fn gelu_as<const D: usize>(&self, form: Gelu, input: Tensor<D>) -> Tensor<D> {
        let [input] = self.cast(Operation::Gelu, [input]).map(primitive);
        self.round_to_emulated(tensor_of(Dispatch::gelu_form(input, form)))
    }

    /// Computes the sigmoid linear unit `x · σ(x)`, in f32 for 16-bit formats.
    pub fn silu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [input] = self.cast(Operation::Silu, [input]);
        let dtype = input.dtype();
        // burn's sigmoid computes in f32 on GPUs, so f64 uses a formula. This formula overflows only for x below -709, which models do
        // not reach.
        let output = match dtype {
            DType::F64 => input.clone() / (input.neg().exp() + 1.0),
            _ => activation::silu(wide(input)),
        };
        self.round_to_emulated(round(output, dtype))
    }

    /// Zeroes elements at random with probability `share` and scales up the others. The mask is drawn in f32 in every setting:
    /// settings with the same seed drop the same elements.
    pub fn dropout<const D: usize>(&self, input: Tensor<D>, share: f64) -> Tensor<D> {
        if share == 0.0 {
            return input;
        }
        let [input] = self.cast(Operation::Dropout, [input]);
        let keep = 1.0 - share;
        let options = (&input.device(), DType::F32);
        let mask = Tensor::<D>::random(input.shape(), Distribution::Bernoulli(keep), options);
        times(input, 1.0 / keep).mask_fill(mask.equal_elem(0.0), 0.0)
    }

    /// Adds two tensors.
    pub fn add<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
        let [a, b] = self.cast(Operation::Add, [a, b]);
        match a.shape() == b.shape() {
            true => tensor_of(Dispatch::add_same_shape(primitive(a), primitive(b))),
            false => a + b,
        }
    }

    /// Computes `max(x, 0)` of each element, in the format of the input.
    pub fn relu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        tensor_of(Dispatch::relu_forward(primitive(input)))
    }

    /// Multiplies two tensors element by element.
    pub fn mul<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
        let [a, b] = self.cast(Operation::Mul, [a, b]);
        self.round_to_emulated(a * b)
    }
}
