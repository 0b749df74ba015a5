//! Number formats and sizes of the tensors of a cell.

use mantissa_core::{Cell, Format, Precision};

use crate::models::F32Layers;

/// Returns the layers that a cell keeps in f32.
pub(super) fn f32_layers(cell: &Cell) -> F32Layers {
    F32Layers::Matching(cell.setting.keep_f32().to_vec())
}

/// Returns the storage size of a value in bytes.
pub(super) fn bytes(format: Format) -> u64 {
    u64::from(format.storage_bytes())
}

/// Returns f64 for f64, otherwise f32: the format of values that must not be rounded to a 16-bit format.
pub(super) fn wide(format: Format) -> Format {
    match format {
        Format::F64 => Format::F64,
        _ => Format::F32,
    }
}

/// Returns the matmul format of a layer, which a mixed setting may keep in f32.
pub(super) fn matmul_format(precision: Precision, is_kept: bool) -> Format {
    match precision.is_mixed() && is_kept {
        true => Format::F32,
        false => precision.compute(),
    }
}
