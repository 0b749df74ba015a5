//! Matrix products on GPUs: which arithmetic a precision asks for, and which units of the device have it.
//!
//! burn's own matmul lets an autotuner choose between true f32 and TF32 kernels for one and the same f32 product. Here
//! the arithmetic is settled first, and only kernels that have it compete for speed.

use burn::tensor::{DType, calculate_matmul_output};
use burn_cubecl::{CubeRuntime, kernel::cast, ops::numeric::zeros_client, tensor::CubeTensor};
use cubecl::ir::{ElemType, FloatKind};
use mantissa_core::{Accumulator, Format, MatmulPrecision};

use super::{candidates, rounding::round_operand};
use crate::MatmulMode;

pub(super) fn matmul<R: CubeRuntime>(
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    mode: MatmulMode,
) -> CubeTensor<R> {
    let (out, sums) = (mode.output(lhs.dtype), sums(lhs.dtype, mode));
    let (left, right) = (lhs.meta.shape(), rhs.meta.shape());
    if left.num_elements() == 0 || right.num_elements() == 0 {
        // A sum without terms is 0, and no kernel can be launched over nothing.
        let shape = calculate_matmul_output(left, right).expect("the shapes were checked where they came in");
        return zeros_client(lhs.client, lhs.device, shape, out);
    }
    if let Some(format) = matrix_unit(&lhs, mode) {
        return candidates::on_matrix_units(feed(lhs, format), feed(rhs, format), out, sums);
    }
    let operand = |tensor: CubeTensor<R>| match tensor.dtype {
        DType::F32 => round_operand(tensor, mode.precision.operand()),
        _ => tensor,
    };
    candidates::on_ordinary_units(operand(lhs), operand(rhs), out, sums)
}

/// Sums narrower than f32 are defined for half operands only.
fn sums(operands: DType, mode: MatmulMode) -> Accumulator {
    match operands {
        DType::F16 | DType::BF16 => mode.accumulator,
        _ => Accumulator::F32,
    }
}

/// What the device's matrix units would make of the operands to do as they are told; none if it has no such units.
pub(super) fn matrix_unit<R: CubeRuntime>(operand: &CubeTensor<R>, mode: MatmulMode) -> Option<Format> {
    let (format, kind) = match (operand.dtype, mode.precision) {
        (DType::F32, MatmulPrecision::High) => (Format::Tf32, FloatKind::TF32),
        (DType::F32, MatmulPrecision::Medium) | (DType::BF16, _) => (Format::Bf16, FloatKind::BF16),
        (DType::F16, _) => (Format::F16, FloatKind::F16),
        _ => return None,
    };
    has_matrix_unit(operand, kind, sums(operand.dtype, mode)).then_some(format)
}

/// An operand as the kernels of the matrix units take it: they turn f32 into TF32 themselves.
pub(super) fn feed<R: CubeRuntime>(operand: CubeTensor<R>, format: Format) -> CubeTensor<R> {
    match (operand.dtype, format) {
        (DType::F32, Format::Bf16) => cast(operand, DType::BF16),
        _ => operand,
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
