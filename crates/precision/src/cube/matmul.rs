//! Matmuls on GPUs: selects the arithmetic that a precision requests, and the units of the device that implement this arithmetic.
//!
//! burn's own matmul lets an autotuner choose between true f32 and TF32 kernels for the same f32 matmul. Here the
//! arithmetic is selected first, and only kernels that implement it compete for speed.

use burn::tensor::{DType, calculate_matmul_output};
use burn_cubecl::{kernel::cast, ops::numeric::zeros_client, tensor::CubeTensor};
use cubecl::ir::{ElemType, FloatKind};
use mantissa_core::{Accumulator, Format, MatmulPrecision};

use super::{autotune, rounding::round_operand};
use crate::MatmulMode;

pub(super) fn matmul(lhs: CubeTensor, rhs: CubeTensor, mode: MatmulMode) -> CubeTensor {
    let (out, sums) = (mode.output(lhs.dtype), accumulator(lhs.dtype, mode));
    let (lhs_shape, rhs_shape) = (lhs.meta.shape(), rhs.meta.shape());
    if lhs_shape.num_elements() == 0 || rhs_shape.num_elements() == 0 {
        // A sum without terms is 0, and no kernel can be launched on empty tensors.
        let shape = calculate_matmul_output(lhs_shape, rhs_shape).expect("operands have compatible shapes");
        return zeros_client(lhs.client, lhs.device, shape, out);
    }
    if let Some(format) = matrix_unit_format(&lhs, mode) {
        return autotune::on_matrix_units(
            cast_for_matrix_units(lhs, format),
            cast_for_matrix_units(rhs, format),
            out,
            sums,
        );
    }
    let operand = |tensor: CubeTensor| match tensor.dtype {
        DType::F32 => round_operand(tensor, mode.precision.operand()),
        _ => tensor,
    };
    autotune::on_ordinary_units(operand(lhs), operand(rhs), out, sums)
}

/// Returns the format of sums. Sums narrower than f32 are defined only for 16-bit operands.
fn accumulator(operands: DType, mode: MatmulMode) -> Accumulator {
    match operands {
        DType::F16 | DType::BF16 => mode.accumulator,
        _ => Accumulator::F32,
    }
}

/// Returns the format to which the device's matrix units must round the operands, or `None` if the device does not have
/// such units.
pub(super) fn matrix_unit_format(operand: &CubeTensor, mode: MatmulMode) -> Option<Format> {
    let (format, kind) = match (operand.dtype, mode.precision) {
        (DType::F32, MatmulPrecision::High) => (Format::Tf32, FloatKind::TF32),
        (DType::F32, MatmulPrecision::Medium) | (DType::BF16, _) => (Format::Bf16, FloatKind::BF16),
        (DType::F16, _) => (Format::F16, FloatKind::F16),
        _ => return None,
    };
    has_matrix_unit(operand, kind, accumulator(operand.dtype, mode)).then_some(format)
}

/// Casts an operand to the input format of the kernels on the matrix units. These kernels convert f32 to TF32 themselves.
pub(super) fn cast_for_matrix_units(operand: CubeTensor, format: Format) -> CubeTensor {
    match (operand.dtype, format) {
        (DType::F32, Format::Bf16) => cast(operand, DType::BF16),
        _ => operand,
    }
}

/// Returns true if the device's matrix units multiply operands of `format` with sums in `sums`.
fn has_matrix_unit(tensor: &CubeTensor, format: FloatKind, sums: Accumulator) -> bool {
    let format = ElemType::Float(format);
    let sums = ElemType::Float(match sums {
        Accumulator::F32 => FloatKind::F32,
        Accumulator::F16 => FloatKind::F16,
    });
    let units = &tensor.client.properties().features.matmul;
    units
        .cmma
        .iter()
        .chain(&units.mma)
        .any(|unit| unit.a_type == format && unit.cd_type == sums)
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe {
    use super::*;
    use crate::cube::testing::{computes_in_f64, download, upload, vulkan};

    #[test]
    fn f64_matmuls_are_exact_in_every_matmul_precision() {
        let Some(device) = vulkan().filter(computes_in_f64) else {
            return;
        };
        let (x, last) = (1.0 + 2f64.powi(-40), 2f64.powi(-50));
        for &precision in MatmulPrecision::ALL {
            let mode = MatmulMode {
                precision,
                accumulator: Accumulator::F32,
                unrounded: false,
            };
            let product = matmul(
                upload(&[x, last, -x, 0.0], [2, 2], &device),
                upload(&[1.0, 2.0, 1.0, 0.0], [2, 2], &device),
                mode,
            );
            assert_eq!(
                download::<f64>(product),
                [x + last, 2.0 * x, -x, -2.0 * x],
                "{precision}"
            );
        }
    }
}
