//! Controlled operations on the CPU. The benchmark `beside_burn` compares their speed with burn's own.

mod adam;
mod attention;
mod bf16_pairs;
mod buffers;
mod columns;
mod contiguous;
mod convert;
mod few_rows;
mod gelu;
mod masked_fill;
mod matmul;
mod norm;
mod parallel_init;
mod pointwise;
mod rotate;
mod softmax;
mod stored;
mod tiles;
mod unfold;
mod vectorized;

use burn::{
    backend::{
        ops::FloatTensorOps,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{DType, FloatDType},
};
use burn_flex::Flex;
use mantissa_core::{Gelu, Layout};

use self::stored::by_format;
use crate::{
    Convolution, MatmulMode,
    backend::{AdamRates, PrecisionBackend},
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
        by_format!(images.dtype(), unfold::windows(images, filter, stride, padding))
    }

    fn normalize_columns(
        rows: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        deviation: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        by_format!(
            rows.dtype(),
            columns::normalize(rows, [mean, deviation, scale, shift])
        )
    }

    fn relu_forward(input: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(input.dtype(), pointwise::relu_forward(input))
    }

    fn relu_gradient(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(output.dtype(), pointwise::relu_gradient(output, grad))
    }

    fn add_same_shape(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(a.dtype(), pointwise::add_same_shape(a, b))
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

    fn copied(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(tensor.dtype(), convert::copied(tensor))
    }

    fn transpose_heads(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        contiguous::packed(Self::float_swap_dims(tensor, 1, 2))
    }

    fn rotate(
        input: FloatTensor<Self>,
        cosine: FloatTensor<Self>,
        sine: FloatTensor<Self>,
        interleaved: bool,
    ) -> FloatTensor<Self> {
        by_format!(input.dtype(), rotate::rotate(input, cosine, sine, interleaved))
    }

    fn masked_fill(tensor: FloatTensor<Self>, hidden: BoolTensor<Self>, value: f64) -> FloatTensor<Self> {
        masked_fill::masked_fill(tensor, hidden, value)
    }

    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(tensor.dtype(), softmax::softmax(tensor))
    }

    fn softmax_last_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(output.dtype(), softmax::softmax_backward(output, grad))
    }

    fn gelu_form(input: FloatTensor<Self>, form: Gelu) -> FloatTensor<Self> {
        by_format!(input.dtype(), gelu::gelu(input, form))
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        by_format!(input.dtype(), gelu::gelu(input, Gelu::TanhPacked))
    }

    fn gelu_form_backward(
        input: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        form: Gelu,
    ) -> FloatTensor<Self> {
        by_format!(input.dtype(), gelu::gelu_backward(input, grad, form))
    }

    fn normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        by_format!(input.dtype(), norm::normalize(input, scale, Some(shift), epsilon))
    }

    fn normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_deviation: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        by_format!(
            input.dtype(),
            norm::normalize_backward(input, scale, Some(mean), inverse_deviation, grad)
        )
    }

    fn rms_normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (output, _, inverse_rms) =
            by_format!(input.dtype(), norm::normalize(input, scale, None, epsilon));
        (output, inverse_rms)
    }

    fn rms_normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        inverse_rms: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (input, scale, _) = by_format!(
            input.dtype(),
            norm::normalize_backward(input, scale, None, inverse_rms, grad)
        );
        (input, scale)
    }

    fn adam(
        value: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        rates: AdamRates,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        by_format!(value.dtype(), adam::adam([value, first, second], gradient, rates))
    }
}
