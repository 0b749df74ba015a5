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
    dropout::Dropout,
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

    /// Zeroes elements at random and scales up the others. The masks do not depend on the setting: settings with the same seed drop the same
    /// elements. The elements of `input` are stored example by example.
    pub fn dropout<const D: usize>(&self, input: Tensor<D>, dropout: Dropout<'_>) -> Tensor<D> {
        if dropout.share == 0.0 {
            return input;
        }
        let [input] = self.cast(Operation::Dropout, [input]);
        let keep = 1.0 - dropout.share;
        let scaled = times(input, 1.0 / keep);
        match dropout.masks {
            Some(masks) => tensor_of(Dispatch::zero_dropped(primitive(scaled), masks.next(keep))),
            None => {
                let options = (&scaled.device(), DType::F32);
                let mask = Tensor::<D>::random(scaled.shape(), Distribution::Bernoulli(keep), options);
                scaled.mask_fill(mask.equal_elem(0.0), 0.0)
            }
        }
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
