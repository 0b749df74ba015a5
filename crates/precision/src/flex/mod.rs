//! The controlled operations on the CPU.

mod attention;
mod convert;
mod elementwise;
mod matmul;
mod windows;

use burn::tensor::{
    DType, FloatDType,
    ops::{BoolTensor, FloatTensor},
};
use burn_flex::Flex;
use mantissa_core::Layout;

use crate::{
    Convolution, MatmulMode, Normalized,
    backend::{LayerNormGradients, PrecisionBackend},
};

impl PrecisionBackend for Flex {
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        matmul::matmul(lhs, rhs, mode)
    }

    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        matmul::convolution(lhs, rhs, convolution, mode)
    }

    fn windows(
        images: FloatTensor<Self>,
        filter: [usize; 2],
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        windows::windows(images, filter, stride, padding)
    }

    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        _mode: MatmulMode,
    ) -> FloatTensor<Self> {
        attention::attention(query, key, value, padding)
    }

    fn round_to(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        convert::round_to(tensor, DType::from(dtype))
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        convert::round_to_layout(tensor, layout)
    }

    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        elementwise::softmax(tensor)
    }

    fn softmax_last_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        elementwise::softmax_backward(output, grad)
    }

    fn gelu_exact(input: FloatTensor<Self>) -> FloatTensor<Self> {
        elementwise::gelu(input)
    }

    fn gelu_exact_backward(input: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        elementwise::gelu_backward(input, grad)
    }

    fn normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> Normalized<FloatTensor<Self>> {
        elementwise::layer_norm(input, scale, shift, epsilon)
    }

    fn normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_deviation: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> LayerNormGradients<FloatTensor<Self>> {
        elementwise::layer_norm_backward(input, scale, mean, inverse_deviation, grad)
    }
}
