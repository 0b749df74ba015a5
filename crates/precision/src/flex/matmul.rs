//! Matmuls on the CPU. f32 operands are rounded to the requested format, then multiplied and summed in f32.
//!
//! Operands in 16-bit formats are widened exactly and multiplied, with sums in f32. If the processor has a bf16 instruction, this
//! instruction multiplies bf16 operands instead. The output is rounded once, or not at all if a bias is added later. burn's own f16 matmul
//! is not used, because it stores partial sums of long rows in f16.

use std::borrow::Cow;

use burn::{
    backend::{ops::FloatTensorOps, tensor::FloatTensor},
    tensor::DType,
};
use burn_flex::{Flex, FlexTensor};
use mantissa_core::{Accumulator, Format};
use mantissa_cpu_kernels::{
    Bf16Instruction, bf16_matmul, few_rows_matmul, matmul_operand, matmul_with_f16_sums, round_to,
    windows_matmul, windows_matmul_bf16,
};

use crate::{
    Convolution, MatmulMode,
    convolution::{convolve_by_unfolding, convolve_with, multiply_windows},
    launched_kernels::{Launch, record_kernel},
};

pub(super) fn matmul(lhs: FloatTensor<Flex>, rhs: FloatTensor<Flex>, mode: MatmulMode) -> FloatTensor<Flex> {
    let dtype = lhs.dtype();
    if has_f16_sums(dtype, mode) {
        record_kernel(Launch {
            kernel: "loop".into(),
            ..emulated_launch("16 bits widened to f32 → f16")
        });
        let product = matmul_with_f16_sums(round_to(lhs, DType::F32), round_to(rhs, DType::F32));
        return round_to(product, dtype);
    }
    let product = match few_rows_matmul(&lhs, &rhs, mode.precision.operand()) {
        Some(product) => {
            record_kernel(Launch {
                kernel: "rows".into(),
                ..matmul_launch(dtype, mode)
            });
            product
        }
        None => multiply(
            round_operand(lhs, mode),
            round_operand(rhs, mode),
            mode.output(dtype),
        ),
    };
    round_to(product, mode.output(dtype))
}

/// Multiplies operands that are already rounded. The result has dtype `output`, or it contains unrounded sums that the
/// caller rounds.
fn multiply(lhs: FloatTensor<Flex>, rhs: FloatTensor<Flex>, output: DType) -> FloatTensor<Flex> {
    match (lhs.dtype(), Bf16Instruction::detect()) {
        (DType::BF16, Some(instruction)) => bf16_matmul(instruction, lhs, rhs, output),
        _ => Flex::float_matmul(lhs, rhs),
    }
}

/// Computes a convolution pass. Operands are rounded before unfolding repeats them.
pub(super) fn convolution(
    lhs: FloatTensor<Flex>,
    rhs: FloatTensor<Flex>,
    convolution: Convolution,
    mode: MatmulMode,
) -> FloatTensor<Flex> {
    let dtype = lhs.dtype();
    if has_f16_sums(dtype, mode) {
        return convolve_by_unfolding::<Flex>(lhs, rhs, convolution, mode);
    }
    let (lhs, rhs) = (round_operand(lhs, mode), round_operand(rhs, mode));
    let multiply = |lhs, rhs| multiply(lhs, rhs, DType::F32);
    let multiply_windows = |images: FlexTensor, filter, stride, padding, filters| match (
        images.dtype(),
        Bf16Instruction::detect(),
    ) {
        (DType::F32, _) => windows_matmul(images, filter, stride, padding, filters),
        (DType::BF16, Some(with)) => {
            windows_matmul_bf16(with, images, filter, stride, padding, filters, dtype)
        }
        _ => multiply_windows::<Flex>(images, filter, stride, padding, filters, multiply),
    };
    let product = convolve_with::<Flex>(lhs, rhs, convolution, multiply, multiply_windows);
    round_to(product, dtype)
}

/// Returns true if products are summed in f16, which is possible only for 16-bit operands.
fn has_f16_sums(operands: DType, mode: MatmulMode) -> bool {
    matches!(operands, DType::F16 | DType::BF16) && mode.accumulator == Accumulator::F16
}

/// Rounds an operand to the requested format, and records the kernel. bf16 results are stored as bf16 if the processor has the bf16
/// instruction. All other results are stored as f32 or f64.
fn round_operand(tensor: FloatTensor<Flex>, mode: MatmulMode) -> FloatTensor<Flex> {
    record_kernel(matmul_launch(tensor.dtype(), mode));
    match (tensor.dtype(), mode.precision.operand()) {
        (DType::F32, Format::Bf16) if Bf16Instruction::detect().is_some() => round_to(tensor, DType::BF16),
        (DType::BF16, _) if Bf16Instruction::detect().is_some() => tensor,
        (_, format) => matmul_operand(tensor, format),
    }
}

/// Returns the launch record of a matmul of operands of this dtype.
fn matmul_launch(dtype: DType, mode: MatmulMode) -> Launch {
    match (dtype, mode.precision.operand()) {
        (DType::F32, Format::Bf16) | (DType::BF16, _) if Bf16Instruction::detect().is_some() => Launch {
            kernel: "vdpbf16ps".into(),
            arithmetic: "bf16 × bf16 → f32".into(),
            instructions: None,
            emulated: false,
        },
        (DType::F32, Format::Tf32) => emulated_launch("f32 rounded to tf32 → f32"),
        (DType::F32, Format::Bf16) => emulated_launch("f32 rounded to bf16 → f32"),
        (DType::F16, _) => emulated_launch("f16 widened to f32 → f32"),
        (DType::BF16, _) => emulated_launch("bf16 widened to f32 → f32"),
        (DType::F32, _) => GEMM,
        _ => Launch {
            arithmetic: "f64 × f64 → f64".into(),
            ..GEMM
        },
    }
}

const GEMM: Launch = Launch {
    kernel: Cow::Borrowed("gemm"),
    arithmetic: Cow::Borrowed("f32 × f32 → f32"),
    instructions: None,
    emulated: false,
};

fn emulated_launch(arithmetic: &'static str) -> Launch {
    Launch {
        arithmetic: arithmetic.into(),
        instructions: None,
        emulated: true,
        ..GEMM
    }
}
