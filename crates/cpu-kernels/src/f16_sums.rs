//! Emulated matmuls with sums in f16. No CPU instruction computes such sums.

use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps},
    tensor::{Bytes, DType, calculate_matmul_output},
};
use burn_flex::{Flex, FlexTensor, Layout};
use half::{f16, slice::HalfFloatSliceExt};
use rayon::prelude::*;

/// Multiplies f32 tensors with 16-bit values, shapes `[…, m, k] × […, k, n]`, and rounds the running sum to f16 after
/// each addition. Slow: meant for studies of the error of f16 sums.
pub fn matmul_with_f16_sums(lhs: FlexTensor, rhs: FlexTensor) -> FlexTensor {
    let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).expect("operands have compatible shapes");
    let rank = shape.num_dims();
    let (m, n, k) = (shape[rank - 2], shape[rank - 1], lhs.shape()[rank - 1]);
    let broadcast = |tensor: FlexTensor, rows: usize, columns: usize| {
        let mut dims = shape.clone();
        (dims[rank - 2], dims[rank - 1]) = (rows, columns);
        Flex::float_expand(tensor, dims).to_contiguous()
    };
    let (lhs, rhs) = (broadcast(lhs, m, k), broadcast(rhs, k, n));
    let (a, b) = (lhs.storage::<f32>(), rhs.storage::<f32>());
    let mut out = vec![0f32; shape.num_elements()];
    if k > 0 && n > 0 {
        out.par_chunks_mut(n).enumerate().for_each(|(row, sums)| {
            let right = &b[row / m * k * n..][..k * n];
            let mut rounded = vec![f16::ZERO; n];
            for (a, b) in a[row * k..][..k].iter().zip(right.chunks_exact(n)) {
                sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
                rounded.convert_from_f32_slice(sums);
                rounded.convert_to_f32_slice(sums);
            }
        });
    }
    FlexTensor::new(Bytes::from_elems(out), Layout::contiguous(shape), DType::F32)
}
