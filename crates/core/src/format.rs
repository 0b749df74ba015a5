//! Floating-point formats: layout, limits and rounding.

use crate::{
    layout::{Layout, exp2},
    name::named,
};

named! {
    /// A binary floating-point format with an implicit leading bit.
    pub enum Format ("format") {
        /// IEEE 754 binary64.
        F64 = "f64",
        /// IEEE 754 binary32.
        F32 = "f32",
        /// NVIDIA TensorFloat-32, to which tensor cores round f32 operands (19 bits, stored in 32).
        Tf32 = "tf32",
        /// bfloat16: the upper half of an f32.
        Bf16 = "bf16",
        /// IEEE 754 binary16.
        F16 = "f16",
    }
}

impl Format {
    /// Returns the width of the exponent field in bits.
    pub const fn exponent_bits(self) -> u32 {
        match self {
            Self::F64 => 11,
            Self::F32 | Self::Tf32 | Self::Bf16 => 8,
            Self::F16 => 5,
        }
    }

    /// Returns the width of the stored fraction in bits (the significand without its implicit leading bit).
    pub const fn fraction_bits(self) -> u32 {
        match self {
            Self::F64 => 52,
            Self::F32 => 23,
            Self::Tf32 | Self::F16 => 10,
            Self::Bf16 => 7,
        }
    }

    /// Returns the number of bits that carry information: sign, exponent and fraction.
    pub const fn bits(self) -> u32 {
        1 + self.exponent_bits() + self.fraction_bits()
    }

    /// Returns the precision as defined by IEEE 754: fraction bits plus the implicit leading bit.
    pub const fn significand_bits(self) -> u32 {
        self.fraction_bits() + 1
    }

    /// Returns the size of a value in memory in bytes. TF32 values are stored as f32.
    pub const fn storage_bytes(self) -> u32 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::Tf32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Returns the layout of the bits.
    pub const fn layout(self) -> Layout {
        Layout::new(self.exponent_bits(), self.fraction_bits())
    }

    /// Returns the exponent bias, which is also the exponent of the largest binade.
    pub const fn bias(self) -> i32 {
        self.layout().bias()
    }

    /// Returns the largest finite value.
    pub fn max_finite(self) -> f64 {
        self.layout().max_finite()
    }

    /// Returns the smallest positive normal value.
    pub fn min_normal(self) -> f64 {
        exp2(1 - self.bias())
    }

    /// Returns the smallest positive subnormal value.
    pub fn min_subnormal(self) -> f64 {
        exp2(1 - self.bias() - self.fraction_bits() as i32)
    }

    /// Returns the distance from 1 to the next larger value.
    pub fn epsilon(self) -> f64 {
        exp2(-(self.fraction_bits() as i32))
    }

    /// Returns the distance between a finite `x` and the next larger magnitude; in the subnormal range, the spacing of
    /// subnormal values.
    pub fn ulp(self, x: f64) -> f64 {
        self.layout().ulp(x)
    }

    /// Returns the number of decimal digits that survive a round trip through the format (`FLT_DIG` of C).
    pub fn decimal_digits(self) -> u32 {
        (f64::from(self.fraction_bits()) * std::f64::consts::LOG10_2).floor() as u32
    }

    /// Rounds to the nearest representable value, ties to even, with gradual underflow and overflow to infinity.
    pub fn round(self, x: f64) -> Rounded {
        let value = self.layout().round(x);
        let class = if value.is_nan() {
            FloatClass::Nan
        } else if x.is_finite() && value.is_infinite() {
            FloatClass::Overflow
        } else if value.is_infinite() {
            FloatClass::Infinite
        } else if x != 0.0 && value == 0.0 {
            FloatClass::Underflow
        } else if value != 0.0 && value.abs() < self.min_normal() {
            FloatClass::Subnormal
        } else if value == x {
            FloatClass::Exact
        } else {
            FloatClass::Inexact
        };
        Rounded { value, class }
    }
}

/// Value rounded to a [`Format`], and the effect of the rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounded {
    /// The representable value.
    pub value: f64,
    /// Effect of the rounding.
    pub class: FloatClass,
}

/// Effect of rounding a value to a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatClass {
    /// The value is representable.
    Exact,
    /// The value was rounded to a normal value.
    Inexact,
    /// The result is subnormal and has fewer significant bits than a normal value.
    Subnormal,
    /// A non-zero value was rounded to zero.
    Underflow,
    /// A finite value was rounded to infinity.
    Overflow,
    /// The value was already infinite.
    Infinite,
    /// NaN.
    Nan,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_match_the_standards() {
        assert_eq!(Format::F16.max_finite(), 65504.0);
        assert_eq!(Format::F16.min_normal(), f64::from(half::f16::MIN_POSITIVE));
        assert_eq!(
            Format::F16.min_subnormal(),
            f64::from(half::f16::MIN_POSITIVE_SUBNORMAL)
        );
        assert_eq!(Format::F16.epsilon(), f64::from(half::f16::EPSILON));
        assert_eq!(Format::Bf16.max_finite(), f64::from(half::bf16::MAX));
        assert_eq!(Format::F32.max_finite(), f64::from(f32::MAX));
        assert_eq!(Format::F32.min_normal(), f64::from(f32::MIN_POSITIVE));
        assert_eq!(Format::F64.max_finite(), f64::MAX);
        assert_eq!(Format::F64.min_subnormal(), 5e-324);
        assert_eq!(Format::Tf32.bits(), 19);
        let digits: Vec<u32> = Format::ALL.iter().map(|f| f.decimal_digits()).collect();
        assert_eq!(digits, [15, 6, 3, 2, 3]);
    }

    #[test]
    fn examples_of_the_article_are_reproduced() {
        assert_eq!(Format::F16.round(1.0 / 3.0).value, 0.333251953125);
        assert_eq!(Format::F32.round(1.0 / 3.0).value, 0.333_333_343_267_440_8);
        assert_eq!(
            Format::F16.round(1e6),
            Rounded {
                value: f64::INFINITY,
                class: FloatClass::Overflow
            }
        );
        assert_eq!(Format::Bf16.round(1e6).value, 999_424.0);
        assert_eq!(
            Format::F16.round(1e-8),
            Rounded {
                value: 0.0,
                class: FloatClass::Underflow
            }
        );
    }

    #[test]
    fn ties_subnormals_and_special_values_are_rounded() {
        for &format in Format::ALL.iter().filter(|format| **format != Format::F64) {
            let round = |x: f64| format.round(x).value;
            for near in [
                format.min_subnormal(),
                format.min_normal(),
                1.5,
                0.75 * format.max_finite(),
            ] {
                let step = format.ulp(near);
                // Both ties next to a value with an even significand round to this value.
                let even = 2.0 * step * (near / step / 2.0).ceil();
                assert_eq!(
                    [round(even - step / 2.0), round(even + step / 2.0)],
                    [even, even],
                    "{format} at {near:e}"
                );
                assert_eq!(round(even + step), even + step, "{format} at {near:e}");
            }
            assert_eq!(round(format.min_subnormal() / 2.0), 0.0, "{format}");
            assert_eq!(
                round(format.min_subnormal() * 0.75),
                format.min_subnormal(),
                "{format}"
            );
            // Values of half a step or more above the largest finite value round to infinity.
            let (largest, step) = (format.max_finite(), format.ulp(format.max_finite()));
            assert_eq!(round(largest + step / 2.0), f64::INFINITY, "{format}");
            assert_eq!(round(largest + step / 4.0), largest, "{format}");
            assert_eq!(
                [round(f64::INFINITY), round(f64::NEG_INFINITY)],
                [f64::INFINITY, f64::NEG_INFINITY]
            );
            assert!(
                round(f64::NAN).is_nan() && round(-0.0).is_sign_negative(),
                "{format}"
            );
        }
    }

    proptest! {
        #[test]
        fn rounding_matches_the_half_crate(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            prop_assume!(!x.is_nan());
            let wide = f64::from(x);
            prop_assert_eq!(Format::F16.round(wide).value, f64::from(half::f16::from_f32(x)));
            prop_assert_eq!(Format::Bf16.round(wide).value, f64::from(half::bf16::from_f32(x)));
        }

        #[test]
        fn rounding_is_idempotent_and_monotonic(x in any::<f64>(), y in any::<u64>(), near in any::<bool>()) {
            // Either two arbitrary numbers, or two numbers so close that a format may round both to the same value.
            let apart = if near { x.to_bits() ^ (y >> 20) } else { y };
            let y = f64::from_bits(apart);
            prop_assume!(!x.is_nan() && !y.is_nan());
            let (low, high) = if x <= y { (x, y) } else { (y, x) };
            for &format in Format::ALL {
                let round = |x: f64| format.round(x).value;
                prop_assert_eq!(round(round(x)).to_bits(), round(x).to_bits(), "{} of {:e}", format, x);
                prop_assert!(round(low) <= round(high), "{}: {:e} and {:e}", format, low, high);
                prop_assert_eq!(round(-x).to_bits(), (-round(x)).to_bits(), "{} of {:e}", format, x);
            }
        }

        #[test]
        fn rounding_to_f32_matches_the_cast(x in any::<f64>()) {
            prop_assume!(!x.is_nan());
            prop_assert_eq!(Format::F32.round(x).value, f64::from(x as f32));
        }
    }
}
