//! Arithmetic of a matmul.

use burn::tensor::DType;
use mantissa_core::{Accumulator, MatmulPrecision};

/// Arithmetic of a matmul. `precision` applies only to f32 operands; operands of other formats are not rounded. Sums are accumulated in f32
/// (f64 for f64 operands) unless `accumulator` is narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatmulMode {
    /// Format to which f32 operands are rounded.
    pub precision: MatmulPrecision,
    /// Format of the running sum for 16-bit operands.
    pub accumulator: Accumulator,
    /// True if f32 sums of 16-bit operands are returned unrounded, to add something before rounding.
    pub unrounded: bool,
}

impl MatmulMode {
    /// Returns the dtype of the result for operands of this dtype.
    pub fn output(self, operands: DType) -> DType {
        match operands {
            DType::F16 | DType::BF16 if self.unrounded && self.accumulator == Accumulator::F32 => DType::F32,
            _ => operands,
        }
    }

    /// Returns the same mode, with results rounded to the dtype of the operands.
    pub fn rounded(self) -> Self {
        Self {
            unrounded: false,
            ..self
        }
    }
}
