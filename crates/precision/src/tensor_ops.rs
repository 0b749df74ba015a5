//! Operations on tensors that do not depend on a precision setting.

use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::{DType, FloatDType, Tensor, s},
};

use crate::{backend::PrecisionBackend, dtypes::intermediate_dtype};

/// Rounds a tensor to a dtype, to nearest even. Returns the tensor unchanged if it has this dtype.
pub(crate) fn round<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    tensor_of(Dispatch::round_to(primitive(tensor), FloatDType::from(dtype)))
}

/// Widens 16-bit formats to f32. Needed before a multiplication by a factor that 16-bit formats cannot represent: in bf16, 0.999 is 1.
pub(crate) fn wide<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let dtype = intermediate_dtype(tensor.dtype());
    round(tensor, dtype)
}

/// Multiplies every element by a factor and rounds once.
pub(crate) fn times<const D: usize>(tensor: Tensor<D>, factor: f64) -> Tensor<D> {
    let dtype = tensor.dtype();
    round(wide(tensor).mul_scalar(factor), dtype)
}

pub(crate) fn primitive<const D: usize>(tensor: Tensor<D>) -> DispatchTensor {
    tensor.into_dispatch()
}

pub(crate) fn tensor_of<const D: usize>(primitive: DispatchTensor) -> Tensor<D> {
    Tensor::from_dispatch(primitive)
}

/// Swaps heads and sequence of attention: `[n, sequence, heads, width]` becomes `[n, heads, sequence, width]`, and vice
/// versa.
pub fn transpose_heads(tensor: Tensor<4>) -> Tensor<4> {
    tensor_of(Dispatch::transpose_heads(primitive(tensor)))
}

/// Copies a tensor. The time of this kernel is a lower bound for kernels that read and write a tensor.
pub fn copied<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::copied(tensor.into_dispatch()))
}

/// Returns the sum of a vector, `[1]`, in the same order in each run. Sums rows of a fixed width first, because the order of burn's sum
/// over all elements may differ between processes.
pub(crate) fn ordered_sum(vector: Tensor<1>) -> Tensor<1> {
    const WIDTH: usize = 1024;
    let [count] = vector.dims();
    let whole = count / WIDTH * WIDTH;
    if whole == 0 {
        return vector.sum_dim(0);
    }
    let rows = vector.clone().slice(s![..whole]).reshape([whole / WIDTH, WIDTH]);
    let sum = rows.sum_dim(1).flatten::<1>(0, 1).sum_dim(0);
    match whole == count {
        true => sum,
        false => sum + vector.slice(s![whole..]).sum_dim(0),
    }
}
