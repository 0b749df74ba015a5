//! Rounding of tensors of any rank.

use burn::{
    backend::{DispatchTensor, TensorMetadata},
    tensor::DType,
};

use crate::{
    dtypes::inside,
    tensor_ops::{primitive, round, tensor_of},
};

/// Rounds a tensor of any rank to a format.
pub(super) fn rounded(tensor: DispatchTensor, format: DType) -> DispatchTensor {
    // `round` does not use the rank, so any rank works here.
    primitive(round(tensor_of::<1>(tensor), format))
}

/// Computes an operation in at least f32 and rounds its output to the format of the input.
pub(super) fn widely(
    input: DispatchTensor,
    operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
) -> DispatchTensor {
    let format = input.dtype();
    rounded(operation(rounded(input, inside(format))), format)
}
