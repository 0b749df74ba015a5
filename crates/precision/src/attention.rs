//! Attention in one kernel, and its gradient.
//!
//! On GPUs the kernel is cubek's: f16 inputs are multiplied on the matrix units where the device has them, all others in their own format on the
//! ordinary units. On the CPU it is Mantissa's own, in f32 for 16-bit inputs. The probe observes which of them ran. burn has no gradient for it: the
//! backward pass computes the weights of attention again, in the precision of the setting, and keeps none of them between the passes.

use burn::{
    backend::{
        TensorMetadata,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{DType, Shape},
};

use crate::{MatmulMode, PrecisionBackend, backend::times};

/// Gradients of attention: of queries, keys and values.
pub(crate) type AttentionGradients<T> = [T; 3];

/// Factor of the scores: one over the root of a head's width.
fn scale<B: PrecisionBackend>(query: &FloatTensor<B>) -> f64 {
    let [.., width] = query.shape().dims::<4>();
    1.0 / (width as f64).sqrt()
}

/// Gradients of attention from its inputs and the gradient of its output, all `[n, heads, sequence, width]`.
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

/// What each position takes of each other one: `[n, heads, sequence, sequence]`.
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
    B::softmax_last(B::hide(scores, padding, lowest))
}

/// The most negative finite value, not infinity: its exponential is zero all the same and its gradient no NaN.
pub(crate) fn lowest(dtype: DType) -> f64 {
    dtype.finfo().expect("scores are floats").min
}

/// Shape of what comes out of attention.
#[cfg(feature = "cubecl")]
pub(crate) fn shape(query: &Shape, value: &Shape) -> Shape {
    let ([n, heads, sequence, _], [.., width]) = (query.dims::<4>(), value.dims::<4>());
    Shape::new([n, heads, sequence, width])
}
