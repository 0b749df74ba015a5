//! Any binary floating-point layout with a sign, a biased exponent and a fraction, as IEEE 754 would have it.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `e5m10` is a layout with 5 bits of exponent and 10 of stored fraction: f16. The highest exponent is that of infinities
/// and NaN, the lowest that of zeros and subnormal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Layout {
    exponent_bits: u32,
    fraction_bits: u32,
}

/// A text that names no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no layout\n  hint: write e.g. `e5m10`: 2 to 11 bits of exponent, 1 to 52 of fraction", .0.escape_debug())]
pub struct NoLayout(String);

impl Layout {
    /// A layout of this many bits.
    ///
    /// # Panics
    /// If there are fewer than 2 bits of exponent or 1 of fraction, or more than f64 has.
    pub const fn new(exponent_bits: u32, fraction_bits: u32) -> Self {
        assert!(exponent_bits >= 2 && exponent_bits <= 11 && fraction_bits >= 1 && fraction_bits <= 52);
        Self {
            exponent_bits,
            fraction_bits,
        }
    }

    /// Width of the exponent field in bits.
    pub const fn exponent_bits(self) -> u32 {
        self.exponent_bits
    }

    /// Width of the stored fraction in bits.
    pub const fn fraction_bits(self) -> u32 {
        self.fraction_bits
    }

    /// Exponent bias, which is also the exponent of the largest binade.
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Largest finite value.
    pub fn max_finite(self) -> f64 {
        (2.0 - exp2(-(self.fraction_bits as i32))) * exp2(self.bias())
    }

    /// Distance between `x` and the next larger magnitude, for finite `x`; the spacing of subnormals below them.
    pub fn ulp(self, x: f64) -> f64 {
        let exponent = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).clamp(1 - self.bias(), self.bias());
        exp2(exponent - self.fraction_bits as i32)
    }

    /// Rounds to the nearest value, ties to even, with gradual underflow and overflow to infinity.
    pub fn round(self, x: f64) -> f64 {
        if (self.exponent_bits, self.fraction_bits) == (11, 52) || !x.is_finite() || x == 0.0 {
            return x;
        }
        let ulp = self.ulp(x);
        let rounded = (x / ulp).round_ties_even() * ulp;
        if rounded.abs() > self.max_finite() {
            f64::INFINITY.copysign(x)
        } else {
            rounded
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("e{}m{}", self.exponent_bits, self.fraction_bits))
    }
}

impl FromStr for Layout {
    type Err = NoLayout;

    fn from_str(text: &str) -> Result<Self, NoLayout> {
        let bits = text.strip_prefix('e').and_then(|rest| rest.split_once('m'));
        let bits = bits.and_then(|(e, m)| Some((e.parse().ok()?, m.parse().ok()?)));
        match bits {
            Some((e @ 2..=11, m @ 1..=52)) => Ok(Self::new(e, m)),
            _ => Err(NoLayout(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Layout {
    type Error = NoLayout;

    fn try_from(text: String) -> Result<Self, NoLayout> {
        text.parse()
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> Self {
        layout.to_string()
    }
}

/// Exact power of two; `exponent` reaches down to f64's subnormals.
pub(crate) fn exp2(exponent: i32) -> f64 {
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        f64::from_bits(1u64 << (exponent + 1074))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_its_text() {
        for text in ["e5m10", "e8m7", "e4m3", "e11m52", "e2m1"] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        for text in ["", "e5", "5m10", "e1m3", "e12m3", "e5m0", "e5m53", "e-5m3"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_smallest_layout_has_the_values_that_one_can_write_down() {
        // Bias 1: subnormal 0.5, then 1, 1.5, 2, 3; the next exponent is that of infinity.
        let tiny = Layout::new(2, 1);
        let values: Vec<f64> = [
            0.2, 0.25, 0.3, 0.75, 1.2, 1.25, 1.3, 2.4, 2.5, 2.6, 3.4, 3.5, -9.0,
        ]
        .map(|x| tiny.round(x))
        .to_vec();
        assert_eq!(
            values,
            [
                0.0,
                0.0,
                0.5,
                1.0,
                1.0,
                1.0,
                1.5,
                2.0,
                2.0,
                3.0,
                3.0,
                f64::INFINITY,
                f64::NEG_INFINITY
            ]
        );
    }
}
