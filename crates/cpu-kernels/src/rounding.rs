//! Rounding of f32 values to formats with fewer bits, to nearest even, with integer operations on the bits that the compiler vectorizes.

use half::bf16;

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
    /// Adding this number rounds to a multiple of 2⁻²⁴, the spacing of subnormal f16 numbers and of f32 numbers of this magnitude.
    const SUBNORMAL_SPACING: f32 = 0.75;
    const SMALLEST_NORMAL: f32 = 6.103_515_6e-5;
    let magnitude = x.abs();
    let normal = round_bits::<13>(magnitude);
    let normal = if normal > 65504.0 { f32::INFINITY } else { normal };
    let subnormal = (magnitude + SUBNORMAL_SPACING) - SUBNORMAL_SPACING;
    // For NaN the comparison is false, and `normal` is NaN.
    (if magnitude < SMALLEST_NORMAL {
        subnormal
    } else {
        normal
    })
    .copysign(x)
}

/// Rounds off the lowest `N` bits of the fraction, to nearest even. A carry may propagate into the exponent, which is the correct
/// result.
#[inline(always)]
fn round_bits<const N: u32>(x: f32) -> f32 {
    let bits = x.to_bits();
    let half_less_one = (1u32 << (N - 1)) - 1;
    let rounded = bits.wrapping_add(half_less_one + ((bits >> N) & 1)) & !((1u32 << N) - 1);
    // A NaN whose payload is only in the dropped bits would become infinity. Therefore, set its quiet bit and keep the upper bits.
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
    use half::f16;
    use mantissa_core::Format;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounding_matches_the_definition_of_the_formats(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            let same = |got: f32, want: f64| got.is_nan() && want.is_nan() || f64::from(got) == want;
            prop_assert!(same(round_tf32(x), Format::Tf32.round(f64::from(x)).value));
            prop_assert!(same(round_bf16(x), Format::Bf16.round(f64::from(x)).value));
            prop_assert!(same(round_f16(x), Format::F16.round(f64::from(x)).value));
        }
    }

    #[test]
    fn round_f16_is_correct_for_every_number_and_every_tie() {
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
    fn infinities_nan_and_signed_zeros_are_preserved() {
        for round in [round_tf32 as fn(f32) -> f32, round_bf16, round_f16] {
            assert!(round(f32::from_bits(0x7f80_0001)).is_nan());
            assert_eq!(round(f32::NEG_INFINITY), f32::NEG_INFINITY);
            assert_eq!(round(-0.0).to_bits(), (-0.0f32).to_bits());
            assert_eq!(round(f32::MAX), f32::INFINITY);
        }
    }
}
