//! Conversion of tensors between formats, in parallel chunks that the compiler vectorizes. burn-flex's own casts round f32
//! in the same way, on one core.

use burn::{
    backend::{ops::FloatTensorOps, tensor::FloatTensor},
    tensor::DType,
};
use burn_flex::{Flex, FlexTensor};
use half::{bf16, f16};
use mantissa_core::{BitRounding, Format, Layout};
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::{
    buffers,
    contiguous::trimmed,
    map::map,
    parallel_init::init_chunks,
    rounding::{round_bf16, round_tf32},
    storage::{CHUNK, Stored, tensor_with_layout},
};

/// Rounds a tensor to another dtype, to nearest even. Conversions between f32 and 16-bit formats run on all cores; all others are
/// burn's casts.
pub fn round_to(tensor: FloatTensor<Flex>, dtype: DType) -> FloatTensor<Flex> {
    let tensor = trimmed(tensor);
    match (tensor.dtype(), dtype) {
        (from, to) if from == to => tensor,
        (DType::F32, DType::F16) => map_chunks(&tensor, f16::narrow),
        (DType::F32, DType::BF16) => map_chunks(&tensor, bf16::narrow),
        (DType::F16, DType::F32) => map_chunks(&tensor, f16::widen),
        (DType::BF16, DType::F32) => map_chunks(&tensor, bf16::widen),
        _ => Flex::float_cast(tensor, dtype.into()),
    }
}

/// Converts an operand of a matmul to f32, in a reusable buffer: widens 16-bit values exactly, and rounds f32 values to `format` if
/// `format` is TF32 or bf16.
pub fn matmul_operand(tensor: FloatTensor<Flex>, format: Format) -> FloatTensor<Flex> {
    match (tensor.dtype(), format) {
        (DType::F32, Format::Tf32) => operand_in_f32(tensor, |from, to| round_each(from, to, round_tf32)),
        (DType::F32, Format::Bf16) => operand_in_f32(tensor, |from, to| round_each(from, to, round_bf16)),
        (DType::F16, _) => operand_in_f32(tensor, f16::widen),
        (DType::BF16, _) => operand_in_f32(tensor, bf16::widen),
        _ => tensor,
    }
}

#[inline(always)]
fn round_each(from: &[f32], to: &mut [f32], round: impl Fn(f32) -> f32) {
    from.iter().zip(to).for_each(|(x, y)| *y = round(*x));
}

fn operand_in_f32<T: Stored>(
    tensor: FloatTensor<Flex>,
    convert: impl Fn(&[T], &mut [f32]) + Copy + Sync,
) -> FloatTensor<Flex> {
    let tensor = trimmed(tensor);
    let from = tensor.storage::<T>();
    let buffer = buffers::fill_buffer(from.len(), |to| convert_chunks(from, to, convert));
    FlexTensor::from_arc(buffer, tensor.layout().clone(), DType::F32)
}

/// Rounds f32 values to a format with the exponent and fraction bits of `layout`, which are at most those of f32.
pub fn round_to_layout(tensor: FloatTensor<Flex>, layout: Layout) -> FloatTensor<Flex> {
    let limits = BitRounding::of(layout);
    map::<f32>(trimmed(tensor), move |x| limits.round(x))
}

/// Copies a tensor.
pub(crate) fn copied<T: Stored>(tensor: FlexTensor) -> FlexTensor {
    map_chunks(&trimmed(tensor), |from: &[T], to: &mut [T]| {
        to.copy_from_slice(from)
    })
}

/// Converts the whole buffer and keeps the layout: a transposed view remains transposed.
fn map_chunks<A: Stored, B: Stored>(
    tensor: &FlexTensor,
    convert: impl Fn(&[A], &mut [B]) + Copy + Sync,
) -> FlexTensor {
    let from = tensor.storage::<A>();
    let to = init_chunks(from.len(), CHUNK, |range, to| {
        let from = &from[range];
        Arch::new().dispatch(Convert { from, to, convert });
    });
    tensor_with_layout(to, tensor.layout().clone())
}

fn convert_chunks<A: Sync, B: Send>(
    from: &[A],
    to: &mut [B],
    convert: impl Fn(&[A], &mut [B]) + Copy + Sync,
) {
    to.par_chunks_mut(CHUNK)
        .zip(from.par_chunks(CHUNK))
        .for_each(|(to, from)| Arch::new().dispatch(Convert { from, to, convert }));
}

struct Convert<'a, A, B, F> {
    from: &'a [A],
    to: &'a mut [B],
    convert: F,
}

impl<A, B, F: Fn(&[A], &mut [B])> NullaryFnOnce for Convert<'_, A, B, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        (self.convert)(self.from, self.to);
    }
}
