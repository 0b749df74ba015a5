//! Matrix products on GPUs: which arithmetic a precision asks for, and which units of the device have it.
//!
//! burn's own matmul lets an autotuner choose between true f32 and TF32 kernels for one and the same f32 product. Here
//! the arithmetic is settled first, and only kernels that have it compete for speed.

use burn::tensor::DType;
use burn_cubecl::{CubeRuntime, kernel::cast, tensor::CubeTensor};
use cubecl::ir::{ElemType, FloatKind};
use mantissa_core::{Accumulator, Format, MatmulPrecision};

use super::{candidates, rounding::round_operand};
use crate::MatmulMode;

pub(super) fn matmul<R: CubeRuntime>(
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    mode: MatmulMode,
) -> CubeTensor<R> {
    let out = lhs.dtype;
    // Sums narrower than f32 are defined for half operands only.
    let f32_sums = Accumulator::F32;
    match (out, mode.precision) {
        // The matrix units' kernels turn f32 operands into TF32 themselves.
        (DType::F32, MatmulPrecision::High) if has_matrix_unit(&lhs, FloatKind::TF32, f32_sums) => {
            candidates::on_matrix_units(lhs, rhs, out, f32_sums)
        }
        (DType::F32, MatmulPrecision::Medium) if has_matrix_unit(&lhs, FloatKind::BF16, f32_sums) => {
            let half = |tensor| cast(tensor, DType::BF16);
            candidates::on_matrix_units(half(lhs), half(rhs), out, f32_sums)
        }
        (DType::F32, precision) => {
            let format = precision.operand();
            candidates::on_ordinary_units(round_operand(lhs, format), round_operand(rhs, format), f32_sums)
        }
        (DType::F16, _) if has_matrix_unit(&lhs, FloatKind::F16, mode.accumulator) => {
            candidates::on_matrix_units(lhs, rhs, out, mode.accumulator)
        }
        (DType::BF16, _) if has_matrix_unit(&lhs, FloatKind::BF16, mode.accumulator) => {
            candidates::on_matrix_units(lhs, rhs, out, mode.accumulator)
        }
        (DType::F16 | DType::BF16, _) => candidates::on_ordinary_units(lhs, rhs, mode.accumulator),
        _ => candidates::on_ordinary_units(lhs, rhs, f32_sums),
    }
}

/// Rounds an operand to what the matrix units make of it.
pub(super) fn round_as_matrix_units_do<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    match tensor.dtype {
        DType::F32 => round_operand(tensor, Format::Tf32),
        _ => tensor,
    }
}

/// Whether the device multiplies matrices of a format in hardware, with sums of this width.
fn has_matrix_unit<R: CubeRuntime>(tensor: &CubeTensor<R>, format: FloatKind, sums: Accumulator) -> bool {
    let format = ElemType::Float(format).into();
    let sums = ElemType::Float(match sums {
        Accumulator::F32 => FloatKind::F32,
        Accumulator::F16 => FloatKind::F16,
    })
    .into();
    let units = &tensor.client.properties().features.matmul;
    units
        .cmma
        .iter()
        .chain(&units.mma)
        .any(|unit| unit.a_type == format && unit.cd_type == sums)
}
