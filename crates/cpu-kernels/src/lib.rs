//! Fast CPU kernels on the tensors of [`burn_flex`]: in parallel, vectorized, with 16-bit formats computed in f32 and rounded once.
//!
//! This crate does not depend on precision settings. `mantissa-precision` chooses the kernel and the formats of the operands. The benchmark
//! `burn_comparison` of `mantissa-precision` compares the speed of each kernel with the equivalent operation of burn-flex, and
//! `docs/upstream/burn-flex-kernels.md` lists the kernels that operations of burn-flex could replace.

mod adam;
mod attention;
mod bf16_matmul;
mod buffers;
mod contiguous;
mod convert;
mod convolution_tiles;
mod dropout;
mod elementwise;
mod f16_sums;
mod few_rows;
mod gelu;
mod map;
mod masked_fill;
mod normalize_columns;
mod normalize_rows;
mod parallel_init;
mod rotate;
mod rounding;
mod softmax;
mod storage;
mod unfold;
mod vectorized;

use burn_flex::FlexTensor;
use mantissa_core::Gelu;

use self::storage::by_format;

pub use adam::AdamRates;
pub use attention::attention;
pub use bf16_matmul::{Instruction as Bf16Instruction, matmul as bf16_matmul};
pub use contiguous::packed;
pub use convert::{matmul_operand, round_to, round_to_layout};
pub use convolution_tiles::{windows_matmul, windows_matmul_bf16};
pub use dropout::{DropoutMask, zero_dropped};
pub use f16_sums::matmul_with_f16_sums;
pub use few_rows::{MAX_FEW_ROWS, few_rows_matmul};
pub use masked_fill::masked_fill;

/// Computes `max(x, 0)` of each element. NaN is propagated, as in PyTorch.
pub fn relu(input: FlexTensor) -> FlexTensor {
    by_format!(input.dtype(), elementwise::relu(input))
}

/// Returns the gradient where the output of [`relu`] is positive or NaN, as in PyTorch, and 0 elsewhere.
pub fn relu_gradient(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    by_format!(output.dtype(), elementwise::relu_gradient(output, grad))
}

/// Adds two tensors of the same shape, in place of the first one if nothing else uses its buffer.
pub fn add(a: FlexTensor, b: FlexTensor) -> FlexTensor {
    by_format!(a.dtype(), elementwise::add(a, b))
}

/// Copies a tensor.
pub fn copied(tensor: FlexTensor) -> FlexTensor {
    by_format!(tensor.dtype(), convert::copied(tensor))
}

/// Unfolds channels-last images `[n, h, w, c]` into one row per window of `filter` `[a, b]`: `[n · y · x, a · b · c]`.
pub fn unfold(images: FlexTensor, filter: [usize; 2], stride: usize, padding: usize) -> FlexTensor {
    by_format!(images.dtype(), unfold::windows(images, filter, stride, padding))
}

/// Normalizes each column of `[rows, columns]`: `(x - mean) / deviation * scale + shift`. `statistics` are mean, deviation, scale and
/// shift, `[columns]` each, in f32, or in f64 for f64 rows.
pub fn normalize_columns(rows: FlexTensor, statistics: [FlexTensor; 4]) -> FlexTensor {
    by_format!(rows.dtype(), normalize_columns::normalize(rows, statistics))
}

/// Computes softmax over the last dimension.
pub fn softmax(input: FlexTensor) -> FlexTensor {
    by_format!(input.dtype(), softmax::softmax(input))
}

/// Computes the gradient of [`softmax`] from its output.
pub fn softmax_backward(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    by_format!(output.dtype(), softmax::softmax_backward(output, grad))
}

/// Computes GELU.
pub fn gelu(input: FlexTensor, form: Gelu) -> FlexTensor {
    by_format!(input.dtype(), gelu::gelu(input, form))
}

/// Computes the gradient of [`gelu`] from its input.
pub fn gelu_backward(input: FlexTensor, grad: FlexTensor, form: Gelu) -> FlexTensor {
    by_format!(input.dtype(), gelu::gelu_backward(input, grad, form))
}

/// Rotates pairs of elements of the last dimension: rotary position embeddings. Element `i` is paired with `i + width / 2`, or, if
/// `interleaved`, element `2 i` with `2 i + 1`.
pub fn rotate(input: FlexTensor, cosine: FlexTensor, sine: FlexTensor, interleaved: bool) -> FlexTensor {
    by_format!(input.dtype(), rotate::rotate(input, cosine, sine, interleaved))
}

/// Normalizes rows: layer norm with `shift`, RMS norm without. Returns the output, and the mean and the inverse deviation (or root mean
/// square) of each row.
pub fn normalize_rows(
    input: FlexTensor,
    scale: FlexTensor,
    shift: Option<FlexTensor>,
    epsilon: f64,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    by_format!(
        input.dtype(),
        normalize_rows::normalize(input, scale, shift, epsilon)
    )
}

/// Returns the gradients of input, scale and shift of [`normalize_rows`]. RMS norm does not have a `mean`.
pub fn normalize_rows_backward(
    input: FlexTensor,
    scale: FlexTensor,
    mean: Option<FlexTensor>,
    inverse_deviation: FlexTensor,
    grad: FlexTensor,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    by_format!(
        input.dtype(),
        normalize_rows::normalize_backward(input, scale, mean, inverse_deviation, grad)
    )
}

/// Applies an Adam step to the parameters and the running means of gradients and squared gradients, and returns their new values. Values
/// are rounded to the format of the parameters wherever a sequence of separate operations would store them. Gradients have the format of
/// the parameters, or f32.
pub fn adam(
    [value, first, second]: [FlexTensor; 3],
    gradient: FlexTensor,
    rates: AdamRates,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    by_format!(value.dtype(), adam::adam([value, first, second], gradient, rates))
}
