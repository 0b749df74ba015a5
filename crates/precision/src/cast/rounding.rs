//! Rounding of tensors of any rank.

use burn::{
    backend::{DispatchTensor, TensorMetadata},
    tensor::DType,
};

use crate::{
    dtypes::intermediate_dtype,
    tensor_ops::{primitive, round, tensor_of},
};

/// Rounds a tensor of any rank to a format.
pub(super) fn round_to(tensor: DispatchTensor, format: DType) -> DispatchTensor {
    // `round` does not use the rank, so any rank works here.
    primitive(round(tensor_of::<1>(tensor), format))
}

/// Computes an operation in at least f32 and rounds its output to the format of the input.
pub(super) fn compute_wide(
    input: DispatchTensor,
    operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
) -> DispatchTensor {
    let format = input.dtype();
    round_to(operation(round_to(input, intermediate_dtype(format))), format)
}
