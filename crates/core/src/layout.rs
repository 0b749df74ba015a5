//! Arbitrary binary floating-point layouts with a sign, a biased exponent and a fraction, as defined by IEEE 754.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Layout of a floating-point format. `e5m10` has 5 exponent bits and 10 stored fraction bits, like f16. The highest
/// exponent encodes infinities and NaN, the lowest zeros and subnormal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Layout {
    exponent_bits: u32,
    fraction_bits: u32,
}

/// Error for text that is not a valid layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a valid layout\n  hint: use 2 to 11 exponent bits and 1 to 52 fraction bits, e.g. `e5m10`", .0.escape_debug())]
pub struct InvalidLayout(String);

impl Layout {
    /// Creates a layout with these numbers of bits.
    ///
    /// # Panics
    /// If there are fewer than 2 exponent bits, fewer than 1 fraction bit, or more of either than in f64.
    pub const fn new(exponent_bits: u32, fraction_bits: u32) -> Self {
        assert!(exponent_bits >= 2 && exponent_bits <= 11 && fraction_bits >= 1 && fraction_bits <= 52);
        Self {
            exponent_bits,
            fraction_bits,
        }
    }

    /// Returns the width of the exponent field in bits.
    pub const fn exponent_bits(self) -> u32 {
        self.exponent_bits
    }

    /// Returns the width of the stored fraction in bits.
    pub const fn fraction_bits(self) -> u32 {
        self.fraction_bits
    }

    /// Returns the exponent bias, which is also the exponent of the largest binade.
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Returns the largest finite value.
    pub fn max_finite(self) -> f64 {
        (2.0 - exp2(-(self.fraction_bits as i32))) * exp2(self.bias())
    }

    /// Returns the distance between a finite `x` and the next larger magnitude; in the subnormal range, the spacing of
    /// subnormal values.
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
    type Err = InvalidLayout;

    fn from_str(text: &str) -> Result<Self, InvalidLayout> {
        let bits = text.strip_prefix('e').and_then(|bits| bits.split_once('m'));
        let bits = bits.and_then(|(e, m)| Some((e.parse().ok()?, m.parse().ok()?)));
        match bits {
            Some((e @ 2..=11, m @ 1..=52)) => Ok(Self::new(e, m)),
            _ => Err(InvalidLayout(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Layout {
    type Error = InvalidLayout;

    fn try_from(text: String) -> Result<Self, InvalidLayout> {
        text.parse()
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> Self {
        layout.to_string()
    }
}

/// Returns an exact power of two, down to the subnormal values of f64.
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
    fn layout_round_trips_through_text() {
        for text in ["e5m10", "e8m7", "e4m3", "e11m52", "e2m1"] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        for text in ["", "e5", "5m10", "e1m3", "e12m3", "e5m0", "e5m53", "e-5m3"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }

    #[test]
    fn smallest_layout_rounds_as_worked_out_by_hand() {
        // With bias 1, the positive values are 0.5 (subnormal), 1, 1.5, 2 and 3. The next exponent encodes infinity.
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
