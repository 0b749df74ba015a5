//! Matmuls on the CPU: operands are rounded to the format of a tensor core, then multiplied and summed in f32.
//!
//! Operands in 16-bit formats are widened exactly, summed in f32 and rounded once, or not at all if something is added
//! later. burn's own f16 matmul stores partial sums of long rows in f16. Processors with bf16 instructions use them.

use std::borrow::Cow;

use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor},
    tensor::{DType, calculate_matmul_output},
};
use burn_flex::{Flex, FlexTensor, Layout};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use mantissa_core::{Accumulator, Format};
use rayon::prelude::*;

use super::{
    bf16_pairs::{self, Instruction},
    convert::{operand, round_bf16, round_tf32, round_to},
    few_rows,
    stored::Stored,
    tiles,
};
use crate::{
    Convolution, MatmulMode,
    convolution::{by_products, by_unfolding, of_windows},
    launched_kernels::{Launch, note},
};

pub(super) fn matmul(lhs: FloatTensor<Flex>, rhs: FloatTensor<Flex>, mode: MatmulMode) -> FloatTensor<Flex> {
    let dtype = lhs.dtype();
    if narrow_sums(dtype, mode) {
        note(Launch {
            kernel: "loop".into(),
            ..emulated("16 bits widened to f32 → f16")
        });
        let product = summed_in_f16(round_to(lhs, DType::F32), round_to(rhs, DType::F32));
        return round_to(product, dtype);
    }
    let product = match few_rows::product(&lhs, &rhs, mode) {
        Some(product) => {
            note(Launch {
                kernel: "rows".into(),
                ..of_operands(dtype, mode)
            });
            product
        }
        None => multiply(seen(lhs, mode), seen(rhs, mode), mode.output(dtype)),
    };
    round_to(product, mode.output(dtype))
}

/// Multiplies operands that are already rounded. The result has dtype `output`, or contains sums that are not rounded
/// yet.
fn multiply(lhs: FloatTensor<Flex>, rhs: FloatTensor<Flex>, output: DType) -> FloatTensor<Flex> {
    match (lhs.dtype(), Instruction::here()) {
        (DType::BF16, Some(instruction)) => bf16_pairs::product(instruction, lhs, rhs, output),
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
    if narrow_sums(dtype, mode) {
        return by_unfolding::<Flex>(lhs, rhs, convolution, mode);
    }
    let (lhs, rhs) = (seen(lhs, mode), seen(rhs, mode));
    let multiply = |lhs, rhs| multiply(lhs, rhs, DType::F32);
    let of_windows =
        |images: FlexTensor, filter, stride, padding, filters| match (images.dtype(), Instruction::here()) {
            (DType::F32, _) => tiles::product(images, filter, stride, padding, filters),
            (DType::BF16, Some(with)) if dtype == DType::BF16 => {
                tiles::product_bf16::<bf16>(with, images, filter, stride, padding, filters)
            }
            (DType::BF16, Some(with)) => {
                tiles::product_bf16::<f32>(with, images, filter, stride, padding, filters)
            }
            _ => of_windows::<Flex>(images, filter, stride, padding, filters, multiply),
        };
    let product = by_products::<Flex>(lhs, rhs, convolution, multiply, of_windows);
    round_to(product, dtype)
}

/// Returns true if sums are f16. Sums narrower than f32 are defined only for 16-bit operands.
fn narrow_sums(operands: DType, mode: MatmulMode) -> bool {
    matches!(operands, DType::F16 | DType::BF16) && mode.accumulator == Accumulator::F16
}

/// Rounds an operand to the requested format: stored as bf16 if the processor multiplies bf16, otherwise wide enough for sums in f32.
fn seen(tensor: FloatTensor<Flex>, mode: MatmulMode) -> FloatTensor<Flex> {
    note(of_operands(tensor.dtype(), mode));
    match (tensor.dtype(), mode.precision.operand()) {
        (DType::F32, Format::Bf16) if Instruction::here().is_some() => round_to(tensor, DType::BF16),
        (DType::BF16, _) if Instruction::here().is_some() => tensor,
        (DType::F32, Format::Tf32) => operand(tensor, |from, to| round_each(from, to, round_tf32)),
        (DType::F32, Format::Bf16) => operand(tensor, |from, to| round_each(from, to, round_bf16)),
        (DType::F16, _) => operand(tensor, f16::widen),
        (DType::BF16, _) => operand(tensor, bf16::widen),
        _ => tensor,
    }
}

/// Returns the launch record of a matmul of such operands.
fn of_operands(dtype: DType, mode: MatmulMode) -> Launch {
    match (dtype, mode.precision.operand()) {
        (DType::F32, Format::Bf16) | (DType::BF16, _) if Instruction::here().is_some() => Launch {
            kernel: "vdpbf16ps".into(),
            arithmetic: "bf16 × bf16 → f32".into(),
            instructions: None,
            emulated: false,
        },
        (DType::F32, Format::Tf32) => emulated("f32 rounded to tf32 → f32"),
        (DType::F32, Format::Bf16) => emulated("f32 rounded to bf16 → f32"),
        (DType::F16, _) => emulated("f16 widened to f32 → f32"),
        (DType::BF16, _) => emulated("bf16 widened to f32 → f32"),
        (DType::F32, _) => GEMM,
        _ => Launch {
            arithmetic: "f64 × f64 → f64".into(),
            ..GEMM
        },
    }
}

#[inline(always)]
fn round_each(from: &[f32], to: &mut [f32], round: impl Fn(f32) -> f32) {
    from.iter().zip(to).for_each(|(x, y)| *y = round(*x));
}

const GEMM: Launch = Launch {
    kernel: Cow::Borrowed("gemm"),
    arithmetic: Cow::Borrowed("f32 × f32 → f32"),
    instructions: None,
    emulated: false,
};

fn emulated(arithmetic: &'static str) -> Launch {
    Launch {
        arithmetic: arithmetic.into(),
        instructions: None,
        emulated: true,
        ..GEMM
    }
}

/// Multiplies f32 tensors with 16-bit values, shapes `[…, m, k] × […, k, n]`, and rounds the running sum to f16 after
/// each multiplication. No CPU instruction does this. It is slow, and intended for studying the error.
fn summed_in_f16(lhs: FlexTensor, rhs: FlexTensor) -> FlexTensor {
    let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).expect("the caller's shapes fit");
    let rank = shape.num_dims();
    let (m, n, k) = (shape[rank - 2], shape[rank - 1], lhs.shape()[rank - 1]);
    let spread = |tensor: FlexTensor, rows: usize, columns: usize| {
        let mut dims = shape.clone();
        (dims[rank - 2], dims[rank - 1]) = (rows, columns);
        Flex::float_expand(tensor, dims).to_contiguous()
    };
    let (lhs, rhs) = (spread(lhs, m, k), spread(rhs, k, n));
    let (a, b) = (lhs.storage::<f32>(), rhs.storage::<f32>());
    let mut out = vec![0f32; shape.num_elements()];
    if k > 0 && n > 0 {
        out.par_chunks_mut(n).enumerate().for_each(|(row, sums)| {
            let right = &b[row / m * k * n..][..k * n];
            let mut narrow = vec![f16::ZERO; n];
            for (a, b) in a[row * k..][..k].iter().zip(right.chunks_exact(n)) {
                sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
                narrow.convert_from_f32_slice(sums);
                narrow.convert_to_f32_slice(sums);
            }
        });
    }
    FlexTensor::new(
        burn::tensor::Bytes::from_elems(out),
        Layout::contiguous(shape),
        DType::F32,
    )
}
