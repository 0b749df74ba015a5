//! Attention in one kernel, and its gradient.
//!
//! On GPUs the kernel is cubek's. It multiplies f16 inputs on the matrix units (tensor cores) if the device has them. It multiplies all other
//! formats, without rounding them, on the ordinary floating-point units. On the CPU the kernel is Mantissa's own, which computes 16-bit inputs in
//! f32. The probe (`crate::probe`) detects which arithmetic the kernel uses. burn does not implement the gradient. Mantissa's backward pass does
//! not store the attention weights, but recomputes them in the precision of the setting.

use burn::{
    backend::{
        TensorMetadata,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::DType,
};

use crate::{
    MatmulMode,
    backend::{PrecisionBackend, times},
};

/// Gradients of queries, keys and values.
pub(crate) type AttentionGradients<T> = [T; 3];

/// Returns the factor of the scores, `1 / √width`, where `width` is that of a head.
fn scale<B: PrecisionBackend>(query: &FloatTensor<B>) -> f64 {
    let [.., width] = query.shape().dims::<4>();
    1.0 / (width as f64).sqrt()
}

/// Computes the gradients of attention from the inputs and the gradient of the output, all `[n, heads, sequence, width]`.
pub(crate) fn backward<B: PrecisionBackend>(
    [query, key, value]: [FloatTensor<B>; 3],
    padding: BoolTensor<B>,
    grad: FloatTensor<B>,
    mode: MatmulMode,
) -> AttentionGradients<FloatTensor<B>> {
    let matmul = |a, b| B::controlled_matmul(a, b, mode);
    let scale = scale::<B>(&query);
    let weights = weights::<B>(query.clone(), key.clone(), padding, mode);
    let grad_value = matmul(B::float_transpose(weights.clone()), grad.clone());
    let grad_weights = B::controlled_matmul_by_columns(grad, value, mode);
    let grad_scores = times::<B>(B::softmax_last_backward(weights, grad_weights), scale);
    [
        matmul(grad_scores.clone(), key),
        matmul(B::float_transpose(grad_scores), query),
        grad_value,
    ]
}

/// Computes the attention weights `[n, heads, sequence, sequence]`.
fn weights<B: PrecisionBackend>(
    query: FloatTensor<B>,
    key: FloatTensor<B>,
    padding: BoolTensor<B>,
    mode: MatmulMode,
) -> FloatTensor<B> {
    let scale = scale::<B>(&query);
    let scores = B::controlled_matmul_by_columns(query, key, mode);
    let lowest = lowest(scores.dtype());
    let scores = times::<B>(scores, scale);
    B::softmax_last(B::masked_fill(scores, padding, lowest))
}

/// Returns the lowest finite value of a dtype, for masked scores. Like −∞, it yields an attention weight of 0. Unlike −∞, it does not yield
/// NaN gradients.
pub(crate) fn lowest(dtype: DType) -> f64 {
    dtype.finfo().expect("attention scores have a float dtype").min
}
