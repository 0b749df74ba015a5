//! Parameter values for upload to a device.

use burn::tensor::{Shape, TensorData};
use mantissa_core::Values;

/// Converts values to burn's tensor data.
///
/// # Panics
/// If the number of values differs from the number of elements of the shape.
pub fn data_of(values: Values, shape: impl Into<Shape>) -> TensorData {
    match values {
        Values::F32(values) => TensorData::new(values, shape),
        Values::F64(values) => TensorData::new(values, shape),
    }
}
