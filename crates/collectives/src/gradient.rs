//! Host buffers that ranks exchange.

use half::{bf16, f16, slice::HalfFloatSliceExt, vec::HalfFloatVecExt};
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

    /// Returns zeros.
    #[cfg(feature = "mpi")]
    pub(crate) fn zeros(format: Format, len: usize) -> Self {
        match format {
            Format::F64 => Self::F64(vec![0.0; len]),
            Format::F32 | Format::Tf32 => Self::F32(vec![0.0; len]),
            Format::Bf16 => Self::Bf16(vec![bf16::ZERO; len]),
            Format::F16 => Self::F16(vec![f16::ZERO; len]),
        }
    }

    /// Rounds f32 values to nearest even in a format, like [`Self::from_f64`], but faster.
    pub fn from_f32(format: Format, values: Vec<f32>) -> Self {
        match format {
            Format::F64 => Self::F64(values.into_iter().map(f64::from).collect()),
            Format::F32 => Self::F32(values),
            Format::Tf32 => Self::from_f64(format, values.into_iter().map(f64::from)),
            Format::Bf16 => Self::Bf16(Vec::from_f32_slice(&values)),
            Format::F16 => Self::F16(Vec::from_f32_slice(&values)),
        }
    }

    /// Returns the values, rounded to nearest even in f32.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Self::F64(values) => values.into_iter().map(|value| value as f32).collect(),
            Self::F32(values) => values,
            Self::Bf16(values) => values.to_f32_vec(),
            Self::F16(values) => values.to_f32_vec(),
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

    /// Adds another gradient to this one, which has the same format and length. Each addition rounds to the format.
    pub fn add(&mut self, other: &Self) {
        fn add<T: Copy + std::ops::Add<Output = T>>(sums: &mut [T], values: &[T]) {
            assert_eq!(sums.len(), values.len(), "both gradients have the same length");
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = *value + *sum;
            }
        }
        match (self, other) {
            (Self::F64(sums), Self::F64(values)) => add(sums, values),
            (Self::F32(sums), Self::F32(values)) => add(sums, values),
            (Self::Bf16(sums), Self::Bf16(values)) => add(sums, values),
            (Self::F16(sums), Self::F16(values)) => add(sums, values),
            _ => panic!("both gradients have the same format"),
        }
    }

    /// Returns the values as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::F64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Bf16(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F16(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// Converts the result of [`Self::to_bytes`] back. Ignores bytes after the last whole value.
    pub fn from_bytes(format: Format, bytes: &[u8]) -> Self {
        fn values<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks().0.iter().map(|bytes| value(*bytes)).collect()
        }
        match format {
            Format::F64 => Self::F64(values(bytes, f64::from_le_bytes)),
            Format::F32 | Format::Tf32 => Self::F32(values(bytes, f32::from_le_bytes)),
            Format::Bf16 => Self::Bf16(values(bytes, bf16::from_le_bytes)),
            Format::F16 => Self::F16(values(bytes, f16::from_le_bytes)),
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
    fn f32_values_are_rounded_like_f64_values() {
        // Ties, values below the smallest subnormal, infinities and signed zeros.
        let values = [
            1.0 + 2f32.powi(-8),
            1.0 + 3.0 * 2f32.powi(-8),
            65519.0,
            65520.0,
            1e-8,
            -3e-8,
            1e39_f64 as f32,
            -0.0,
            3e38,
        ];
        for format in [Format::F64, Format::F32, Format::Tf32, Format::Bf16, Format::F16] {
            let fast = Gradient::from_f32(format, values.to_vec());
            let slow = Gradient::from_f64(format, values.map(f64::from)).to_f64();
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&fast.to_f64()), bits(&slow), "{format}");
            let in_f32: Vec<f64> = fast.into_f32().into_iter().map(f64::from).collect();
            assert_eq!(bits(&in_f32), bits(&slow), "{format}");
        }
    }

    #[test]
    fn additions_round_to_the_format() {
        // In bf16, 256 + 1 = 256 and 258 + 1 = 260: a tie is rounded to the even significand.
        for (format, sums) in [
            (Format::F64, [257.0, 259.0]),
            (Format::F32, [257.0, 259.0]),
            (Format::Bf16, [256.0, 260.0]),
            (Format::F16, [257.0, 259.0]),
        ] {
            let mut sum = Gradient::from_f64(format, [256.0, 258.0]);
            sum.add(&Gradient::from_f64(format, [1.0, 1.0]));
            assert_eq!(sum.to_f64(), sums, "{format}");
        }
    }

    #[test]
    fn bytes_keep_every_bit() {
        for format in [Format::F64, Format::F32, Format::Bf16, Format::F16] {
            let gradient = Gradient::from_f64(format, [1.5, -0.0, f64::INFINITY, 2.0_f64.powi(-24)]);
            let bytes = gradient.to_bytes();
            assert_eq!(bytes.len(), 4 * format.storage_bytes() as usize, "{format}");
            assert_eq!(
                bytes[..bytes.len() / 4].last(),
                Some(
                    &[0x3f, 0x3f, 0x3f, 0x3e][match format {
                        Format::F64 => 0,
                        Format::F32 => 1,
                        Format::Bf16 => 2,
                        _ => 3,
                    }]
                )
            );
            let back = Gradient::from_bytes(format, &bytes);
            assert_eq!(back, gradient, "{format}");
            assert!(back.to_f64()[1].is_sign_negative(), "{format}");
        }
    }

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
