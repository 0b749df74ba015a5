//! Rounding between formats on the CPU: on bits, to nearest even, in parallel chunks that the compiler vectorises.
//!
//! burn's own cast from f32 to bf16 goes through f64 and a conversion that drops low bits before it rounds, so that a
//! value just above a tie falls the wrong way; the test beside PyTorch's results would notice.

use burn::tensor::{
    DType,
    ops::{FloatTensor, FloatTensorOps},
};
use burn_flex::{Flex, FlexTensor};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use mantissa_core::{Format, Layout};
use rayon::prelude::*;

use crate::layout::Limits;

/// Elements a thread takes at a time: 128 KiB of f32, within the second-level cache.
pub(super) const CHUNK: usize = 32 * 1024;

/// Rounds a tensor to another dtype. f32 ↔ half goes through [`round_bf16`]'s and the CPU's own conversions; the rare
/// rest is burn's.
pub(super) fn round_to(tensor: FloatTensor<Flex>, dtype: DType) -> FloatTensor<Flex> {
    let tensor = trimmed(tensor);
    match (tensor.dtype(), dtype) {
        (from, to) if from == to => tensor,
        (DType::F32, DType::F16) => map_chunks(&tensor, dtype, f16::ZERO, |from: &[f32], to| {
            to.convert_from_f32_slice(from)
        }),
        (DType::F32, DType::BF16) => map_chunks(&tensor, dtype, bf16::ZERO, |from: &[f32], to| {
            from.iter()
                .zip(to)
                .for_each(|(x, y)| *y = bf16::from_bits((round_bf16(*x).to_bits() >> 16) as u16));
        }),
        (DType::F16, DType::F32) => map_chunks(&tensor, dtype, 0f32, |from: &[f16], to| {
            from.convert_to_f32_slice(to)
        }),
        (DType::BF16, DType::F32) => map_chunks(&tensor, dtype, 0f32, |from: &[bf16], to| {
            from.iter()
                .zip(to)
                .for_each(|(x, y)| *y = f32::from_bits(u32::from(x.to_bits()) << 16));
        }),
        _ => Flex::float_cast(tensor, dtype.into()),
    }
}

/// Rounds f32 operands as a multiplier of the format would see them; the values stay in f32 words.
///
/// # Panics
/// On a format that f32 operands are never rounded to.
pub(super) fn round_operand(tensor: FloatTensor<Flex>, format: Format) -> FloatTensor<Flex> {
    let tensor = trimmed(tensor);
    match format {
        Format::F32 => tensor,
        Format::Tf32 => map_chunks(&tensor, DType::F32, 0f32, |from: &[f32], to| {
            from.iter().zip(to).for_each(|(x, y)| *y = round_tf32(*x));
        }),
        Format::Bf16 => map_chunks(&tensor, DType::F32, 0f32, |from: &[f32], to| {
            from.iter().zip(to).for_each(|(x, y)| *y = round_bf16(*x));
        }),
        Format::F64 | Format::F16 => unreachable!("f32 operands are never multiplied as {format}"),
    }
}

/// Rounds f32 values to a layout, whose bits are no more than those of f32.
pub(super) fn round_to_layout(tensor: FloatTensor<Flex>, layout: Layout) -> FloatTensor<Flex> {
    let limits = Limits::of(layout);
    map_chunks(&trimmed(tensor), DType::F32, 0f32, |from: &[f32], to| {
        from.iter().zip(to).for_each(|(x, y)| *y = limits.round(*x));
    })
}

/// The same tensor, made contiguous if it is a small window of a large buffer: what follows works on whole buffers.
fn trimmed(tensor: FlexTensor) -> FlexTensor {
    let width = tensor.dtype().size();
    if tensor.bytes().len() / width > 2 * tensor.layout().num_elements() {
        tensor.to_contiguous()
    } else {
        tensor
    }
}

/// Converts the whole buffer and keeps the layout, so that a transposed view stays one.
fn map_chunks<A, B>(
    tensor: &FlexTensor,
    dtype: DType,
    zero: B,
    convert: impl Fn(&[A], &mut [B]) + Sync,
) -> FlexTensor
where
    A: burn::tensor::Element + bytemuck::Pod + Sync,
    B: burn::tensor::Element + bytemuck::Pod + Send + Sync,
{
    let from = tensor.storage::<A>();
    let mut to = vec![zero; from.len()];
    to.par_chunks_mut(CHUNK)
        .zip(from.par_chunks(CHUNK))
        .for_each(|(to, from)| convert(from, to));
    FlexTensor::new(
        burn::tensor::Bytes::from_elems(to),
        tensor.layout().clone(),
        dtype,
    )
}

/// Rounds to TF32: 10 fraction bits, to nearest, ties to even. NaN and infinities stay; what lies beyond the largest
/// TF32 value becomes infinite.
pub(super) fn round_tf32(x: f32) -> f32 {
    round_bits::<13>(x)
}

/// Rounds to bfloat16: 7 fraction bits, to nearest, ties to even. NaN and infinities stay; what lies beyond the
/// largest bf16 value becomes infinite.
pub(super) fn round_bf16(x: f32) -> f32 {
    round_bits::<16>(x)
}

/// Drops the lowest `N` bits of the fraction, to nearest even. The carry may run into the exponent, as it should.
fn round_bits<const N: u32>(x: f32) -> f32 {
    let bits = x.to_bits();
    let half_less_one = (1u32 << (N - 1)) - 1;
    let rounded = bits.wrapping_add(half_less_one + ((bits >> N) & 1)) & !((1u32 << N) - 1);
    // A NaN whose payload lies in the dropped bits must not turn into infinity: set its quiet bit and keep the top.
    let quiet = (bits | 0x0040_0000) & !((1u32 << N) - 1);
    let is_special = bits & 0x7f80_0000 == 0x7f80_0000;
    let is_nan = is_special && bits & 0x007f_ffff != 0;
    f32::from_bits(if is_nan {
        quiet
    } else if is_special {
        bits
    } else {
        rounded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_on_bits_agrees_with_the_definition_of_the_formats(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            let same = |got: f32, want: f64| got.is_nan() && want.is_nan() || f64::from(got) == want;
            prop_assert!(same(round_tf32(x), Format::Tf32.round(f64::from(x)).value));
            prop_assert!(same(round_bf16(x), Format::Bf16.round(f64::from(x)).value));
        }
    }

    #[test]
    fn specials_keep_their_kind_and_their_sign() {
        for round in [round_tf32 as fn(f32) -> f32, round_bf16] {
            assert!(round(f32::from_bits(0x7f80_0001)).is_nan());
            assert_eq!(round(f32::NEG_INFINITY), f32::NEG_INFINITY);
            assert_eq!(round(-0.0).to_bits(), (-0.0f32).to_bits());
            assert_eq!(round(f32::MAX), f32::INFINITY);
        }
    }
}
