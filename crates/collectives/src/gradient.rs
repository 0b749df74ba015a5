//! Host buffers that ranks exchange.

use half::{bf16, f16};
use mantissa_core::Format;

/// Host buffer of values that are sent and summed in their own format.
#[derive(Debug, Clone, PartialEq)]
pub enum Gradient {
    /// IEEE 754 binary64.
    F64(Vec<f64>),
    /// IEEE 754 binary32.
    F32(Vec<f32>),
    /// bfloat16.
    Bf16(Vec<bf16>),
    /// IEEE 754 binary16.
    F16(Vec<f16>),
}

impl Gradient {
    /// Rounds values to nearest even in a format. Ranks store and add TF32 values in f32.
    pub fn from_f64(format: Format, values: impl IntoIterator<Item = f64>) -> Self {
        // `half` rounds f64 to f32 first, or truncates it. Values that are already rounded stay exact.
        let rounded = values.into_iter().map(|value| format.round(value).value);
        match format {
            Format::F64 => Self::F64(rounded.collect()),
            Format::F32 | Format::Tf32 => Self::F32(rounded.map(|value| value as f32).collect()),
            Format::Bf16 => Self::Bf16(rounded.map(bf16::from_f64).collect()),
            Format::F16 => Self::F16(rounded.map(f16::from_f64).collect()),
        }
    }

    /// Returns the values without loss.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F64(values) => values.clone(),
            Self::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Self::Bf16(values) => values.iter().map(|value| value.to_f64()).collect(),
            Self::F16(values) => values.iter().map(|value| value.to_f64()).collect(),
        }
    }

    /// Returns the format of the values.
    pub const fn format(&self) -> Format {
        match self {
            Self::F64(_) => Format::F64,
            Self::F32(_) => Format::F32,
            Self::Bf16(_) => Format::Bf16,
            Self::F16(_) => Format::F16,
        }
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
            Self::F16(values) => values.len(),
        }
    }

    /// Returns true if the buffer has no values.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a part of the buffer.
    #[cfg(feature = "mpi")]
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::F64(values) => Self::F64(values[range].to_vec()),
            Self::F32(values) => Self::F32(values[range].to_vec()),
            Self::Bf16(values) => Self::Bf16(values[range].to_vec()),
            Self::F16(values) => Self::F16(values[range].to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_just_above_a_tie_are_rounded_up() {
        for (format, bits) in [(Format::Bf16, 8), (Format::F16, 11), (Format::F32, 24)] {
            // Half the distance to the next value, and a little more.
            let tie = 1.0 + 2.0_f64.powi(-bits);
            let above = tie + 2.0_f64.powi(-50);
            let gradient = Gradient::from_f64(format, [tie, above]);
            assert_eq!(gradient.to_f64(), [1.0, 1.0 + 2.0_f64.powi(1 - bits)], "{format}");
        }
    }
}
