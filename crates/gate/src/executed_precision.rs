//! Precision of the matmuls of a process, as observed in hardware.

use std::fmt;

use mantissa_core::{Executed, ExecutedVerdict, Format};

/// Precision of the matmuls of a process, as observed in hardware.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutedPrecision {
    significand: u32,
    exponent: u32,
    accumulator: String,
    pub verdict: ExecutedVerdict,
}

impl ExecutedPrecision {
    /// Returns the precision of a process. Returns `None` unless all parts of it were observed.
    pub fn of(executed: &Executed) -> Option<Self> {
        Some(Self {
            significand: executed.operand_bits?,
            exponent: executed.exponent_bits?,
            accumulator: executed.accumulator.clone()?,
            verdict: executed.verdict,
        })
    }

    /// Returns true if at least one number of bits is smaller than in `other` and the others are not larger.
    pub fn is_less_than(&self, other: &Self) -> bool {
        let bits = |observed: &Self| {
            let accumulator = accumulator_bits(&observed.accumulator);
            [Some(observed.significand), Some(observed.exponent), accumulator]
        };
        let (bits, other_bits) = (bits(self), bits(other));
        let all_known = bits.iter().chain(&other_bits).all(Option::is_some);
        all_known && bits != other_bits && bits.iter().zip(other_bits).all(|(bits, other)| *bits <= other)
    }
}

impl fmt::Display for ExecutedPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} significand bits, {} exponent bits, accumulator {}",
            self.significand, self.exponent, self.accumulator
        )
    }
}

/// Returns the significand bits of an accumulator. `accumulator`: the name of a format, or a text such as `7 bits`.
fn accumulator_bits(accumulator: &str) -> Option<u32> {
    match accumulator.parse::<Format>() {
        Ok(format) => Some(format.significand_bits()),
        Err(_) => accumulator.strip_suffix(" bits")?.parse().ok(),
    }
}
