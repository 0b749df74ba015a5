//! Dtypes for formats and for intermediate results.

use burn::tensor::DType;
use mantissa_core::Format;

/// Returns burn's dtype for a format. TF32 values are stored as f32.
pub const fn dtype(format: Format) -> DType {
    match format {
        Format::F64 => DType::F64,
        Format::F32 | Format::Tf32 => DType::F32,
        Format::Bf16 => DType::BF16,
        Format::F16 => DType::F16,
    }
}

/// Returns the dtype for intermediate results of an operation on inputs of this dtype: f32 for 16-bit formats.
pub(crate) fn intermediate_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    }
}
