//! Rounding between formats on the CPU: on bits, to nearest even, in parallel chunks that the compiler vectorizes.
//! burn-flex's own casts round f32 in the same way, on one core.

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
    parallel_init::written,
    storage::{Stored, map, tensor as new},
};

/// Elements per piece of work: 128 KiB of f32, which fits into the L2 cache.
pub(crate) const CHUNK: usize = 32 * 1024;

/// Rounds a tensor to another dtype. Conversions between f32 and 16-bit formats use [`round_bf16`] and the CPU's own
/// instructions; the other, rare ones use burn.
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

/// Converts an operand of a matmul to f32, in a buffer that is used again: widens 16-bit values exactly, and rounds f32 values to `format` if
/// that is TF32 or bf16.
pub fn matmul_operand(tensor: FloatTensor<Flex>, format: Format) -> FloatTensor<Flex> {
    match (tensor.dtype(), format) {
        (DType::F32, Format::Tf32) => operand(tensor, |from, to| round_each(from, to, round_tf32)),
        (DType::F32, Format::Bf16) => operand(tensor, |from, to| round_each(from, to, round_bf16)),
        (DType::F16, _) => operand(tensor, f16::widen),
        (DType::BF16, _) => operand(tensor, bf16::widen),
        _ => tensor,
    }
}

#[inline(always)]
fn round_each(from: &[f32], to: &mut [f32], round: impl Fn(f32) -> f32) {
    from.iter().zip(to).for_each(|(x, y)| *y = round(*x));
}

fn operand<T: Stored>(
    tensor: FloatTensor<Flex>,
    convert: impl Fn(&[T], &mut [f32]) + Copy + Sync,
) -> FloatTensor<Flex> {
    let tensor = trimmed(tensor);
    let from = tensor.storage::<T>();
    let buffer = buffers::filled(from.len(), |to| in_chunks(from, to, convert));
    FlexTensor::from_arc(buffer, tensor.layout().clone(), DType::F32)
}

/// Rounds f32 values to a layout that has at most as many bits as f32.
pub fn round_to_layout(tensor: FloatTensor<Flex>, layout: Layout) -> FloatTensor<Flex> {
    let limits = BitRounding::of(layout);
    map::<f32>(trimmed(tensor), move |x| limits.round(x))
}

/// Returns the tensor, made contiguous if it is a small window of a large buffer: the functions below process whole
/// buffers.
pub(crate) fn trimmed(tensor: FlexTensor) -> FlexTensor {
    let width = tensor.dtype().size();
    if tensor.bytes().len() / width > 2 * tensor.layout().num_elements() {
        tensor.to_contiguous()
    } else {
        tensor
    }
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
    let to = written(from.len(), CHUNK, |these, to| {
        let from = &from[these];
        Arch::new().dispatch(Convert { from, to, convert });
    });
    new(to, tensor.layout().clone())
}

fn in_chunks<A: Sync, B: Send>(from: &[A], to: &mut [B], convert: impl Fn(&[A], &mut [B]) + Copy + Sync) {
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

/// Rounds values to bfloat16.
#[inline(always)]
pub(crate) fn narrow_bf16(from: &[f32], to: &mut [bf16]) {
    for (x, y) in from.iter().zip(to) {
        *y = bf16::from_bits((round_bf16(*x).to_bits() >> 16) as u16);
    }
}

/// Rounds to TF32: 10 fraction bits, to nearest, ties to even. NaN and infinities are unchanged; values beyond the
/// largest TF32 value become infinite.
#[inline(always)]
pub(crate) fn round_tf32(x: f32) -> f32 {
    round_bits::<13>(x)
}

/// Rounds to bfloat16: 7 fraction bits, to nearest, ties to even. NaN and infinities are unchanged; values beyond the
/// largest bf16 value become infinite.
#[inline(always)]
pub(crate) fn round_bf16(x: f32) -> f32 {
    round_bits::<16>(x)
}

/// Rounds to f16: 10 fraction bits, or a multiple of the smallest subnormal, to nearest, ties to even. NaN and
/// infinities are unchanged; values that round beyond the largest f16 value become infinite.
#[inline(always)]
pub(crate) fn round_f16(x: f32) -> f32 {
    /// f32 numbers of this magnitude are 2⁻²⁴ apart, like subnormal f16 numbers.
    const SUBNORMALS_APART: f32 = 0.75;
    const SMALLEST_NORMAL: f32 = 6.103_515_6e-5;
    let size = x.abs();
    let normal = round_bits::<13>(size);
    let normal = if normal > 65504.0 { f32::INFINITY } else { normal };
    let subnormal = (size + SUBNORMALS_APART) - SUBNORMALS_APART;
    // Comparisons with NaN are false.
    (if size < SMALLEST_NORMAL { subnormal } else { normal }).copysign(x)
}

/// Rounds off the lowest `N` bits of the fraction, to nearest even. The carry may propagate into the exponent, as
/// intended.
#[inline(always)]
fn round_bits<const N: u32>(x: f32) -> f32 {
    let bits = x.to_bits();
    let half_less_one = (1u32 << (N - 1)) - 1;
    let rounded = bits.wrapping_add(half_less_one + ((bits >> N) & 1)) & !((1u32 << N) - 1);
    // A NaN whose payload is in the dropped bits must not become infinity: set its quiet bit and keep the upper bits.
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounding_on_bits_agrees_with_the_definition_of_the_formats(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            let same = |got: f32, want: f64| got.is_nan() && want.is_nan() || f64::from(got) == want;
            prop_assert!(same(round_tf32(x), Format::Tf32.round(f64::from(x)).value));
            prop_assert!(same(round_bf16(x), Format::Bf16.round(f64::from(x)).value));
            prop_assert!(same(round_f16(x), Format::F16.round(f64::from(x)).value));
        }
    }

    #[test]
    fn every_f16_number_and_every_tie_rounds_as_the_processor_rounds() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits).to_f32();
            assert!(round_f16(x) == x || x.is_nan() && round_f16(x).is_nan(), "{x:e}");
            let next = f16::from_bits(bits.wrapping_add(1)).to_f32();
            let tie = 0.5 * (x + next);
            if tie.is_finite() && x.is_finite() {
                assert_eq!(round_f16(tie), f16::from_f32(tie).to_f32(), "{tie:e}");
            }
        }
    }

    #[test]
    fn infinities_and_nan_keep_their_kind_and_sign() {
        for round in [round_tf32 as fn(f32) -> f32, round_bf16, round_f16] {
            assert!(round(f32::from_bits(0x7f80_0001)).is_nan());
            assert_eq!(round(f32::NEG_INFINITY), f32::NEG_INFINITY);
            assert_eq!(round(-0.0).to_bits(), (-0.0f32).to_bits());
            assert_eq!(round(f32::MAX), f32::INFINITY);
        }
    }
}
