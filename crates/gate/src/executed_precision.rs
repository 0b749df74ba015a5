//! Precision of matmuls that was observed in hardware.

use std::fmt;

use mantissa_core::{Executed, ExecutedVerdict, Format};

/// Precision of matmuls that was observed in hardware.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutedPrecision {
    significand: u32,
    exponent: u32,
    accumulator: String,
    pub verdict: ExecutedVerdict,
}

impl ExecutedPrecision {
    /// Returns the precision of a process, if all of it was observed.
    pub fn of(executed: &Executed) -> Option<Self> {
        Some(Self {
            significand: executed.operand_bits?,
            exponent: executed.exponent_bits?,
            accumulator: executed.accumulator.clone()?,
            verdict: executed.verdict,
        })
    }

    /// Returns true if at least one number of bits is smaller than in `other` and none is larger.
    pub fn is_less_than(&self, other: &Self) -> bool {
        let bits = |observed: &Self| {
            let sums = significand_of(&observed.accumulator);
            [Some(observed.significand), Some(observed.exponent), sums]
        };
        let (own, others) = (bits(self), bits(other));
        let all_known = own.iter().chain(&others).all(Option::is_some);
        all_known && own != others && own.iter().zip(others).all(|(own, other)| *own <= other)
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

/// Parses the significand bits of an accumulator: the name of a format, or text such as `7 bits`.
fn significand_of(accumulator: &str) -> Option<u32> {
    match accumulator.parse::<Format>() {
        Ok(format) => Some(format.significand_bits()),
        Err(_) => accumulator.strip_suffix(" bits")?.parse().ok(),
    }
}
