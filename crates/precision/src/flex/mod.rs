//! Controlled operations on the CPU, with the kernels of `mantissa-cpu-kernels`.

mod matmul;
#[cfg(test)]
mod tests;

use burn::{
    backend::{
        ops::FloatTensorOps,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{DType, FloatDType},
};
use burn_flex::Flex;
use mantissa_core::{Gelu, Layout};
use mantissa_cpu_kernels::{self as kernels, AdamRates, DropoutMask};

use crate::{
    Convolution, MatmulMode,
    backend::PrecisionBackend,
    launched_kernels::{Launch, record_kernel},
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
        kernels::unfold(images, filter, stride, padding)
    }

    fn normalize_columns(
        rows: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        deviation: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        kernels::normalize_columns(rows, [mean, deviation, scale, shift])
    }

    fn relu_forward(input: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::relu(input)
    }

    fn relu_gradient(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::relu_gradient(output, grad)
    }

    fn add_same_shape(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::add(a, b)
    }

    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        _mode: MatmulMode,
    ) -> FloatTensor<Self> {
        record_kernel(attention_launch(query.dtype()));
        kernels::attention(query, key, value, padding)
    }

    fn round_to(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        kernels::round_to(tensor, DType::from(dtype))
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        kernels::round_to_layout(tensor, layout)
    }

    fn copied(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::copied(tensor)
    }

    fn transpose_heads(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::packed(Self::float_swap_dims(tensor, 1, 2))
    }

    fn rotate(
        input: FloatTensor<Self>,
        cosine: FloatTensor<Self>,
        sine: FloatTensor<Self>,
        interleaved: bool,
    ) -> FloatTensor<Self> {
        kernels::rotate(input, cosine, sine, interleaved)
    }

    fn masked_fill(tensor: FloatTensor<Self>, hidden: BoolTensor<Self>, value: f64) -> FloatTensor<Self> {
        kernels::masked_fill(tensor, hidden, value)
    }

    fn zero_dropped(tensor: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        kernels::zero_dropped(tensor, mask)
    }

    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::softmax(tensor)
    }

    fn softmax_last_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::softmax_backward(output, grad)
    }

    fn gelu_form(input: FloatTensor<Self>, form: Gelu) -> FloatTensor<Self> {
        if form == Gelu::TanhPacked {
            record_packed_gelu();
        }
        kernels::gelu(input, form)
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        record_packed_gelu();
        kernels::gelu(input, Gelu::TanhPacked)
    }

    fn gelu_form_backward(
        input: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        form: Gelu,
    ) -> FloatTensor<Self> {
        kernels::gelu_backward(input, grad, form)
    }

    fn normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        kernels::normalize_rows(input, scale, Some(shift), epsilon)
    }

    fn normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_deviation: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        kernels::normalize_rows_backward(input, scale, Some(mean), inverse_deviation, grad)
    }

    fn rms_normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (output, _, inverse_rms) = kernels::normalize_rows(input, scale, None, epsilon);
        (output, inverse_rms)
    }

    fn rms_normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        inverse_rms: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (input, scale, _) = kernels::normalize_rows_backward(input, scale, None, inverse_rms, grad);
        (input, scale)
    }

    fn adam(
        value: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        rates: AdamRates,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        kernels::adam([value, first, second], gradient, rates)
    }

    fn sum_over_processes(_: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("NCCL sums vectors on CUDA devices only")
    }
}

/// Returns the launch record of the attention kernel for tensors of this dtype.
fn attention_launch(dtype: DType) -> Launch {
    let arithmetic = match dtype {
        DType::F64 => "f64 × f64 → f64",
        DType::F16 => "f16 widened to f32 → f32",
        DType::BF16 => "bf16 widened to f32 → f32",
        _ => "f32 × f32 → f32",
    };
    Launch {
        kernel: "attention".into(),
        arithmetic: arithmetic.into(),
        instructions: None,
        emulated: matches!(dtype, DType::F16 | DType::BF16),
    }
}

fn record_packed_gelu() {
    record_kernel(Launch {
        kernel: "gelu_tanh_packed".into(),
        arithmetic: "16-bit values in f32 lanes, rounded after each operation; tanh in f32".into(),
        instructions: None,
        emulated: true,
    });
}
