//! Matrix products on the CPU: operands rounded to what a tensor core would see, then multiplied and summed in f32.
//!
//! Half operands are widened exactly, summed in f32 and rounded once: burn's own f16 product stores partial sums of
//! long rows in f16.

use std::borrow::Cow;

use burn::tensor::{
    DType, TensorMetadata, calculate_matmul_output,
    ops::{FloatTensor, FloatTensorOps},
};
use burn_flex::{Flex, FlexTensor, Layout};
use half::{f16, slice::HalfFloatSliceExt};
use mantissa_core::{Accumulator, Format};
use rayon::prelude::*;

use super::convert::{round_operand, round_to};
use crate::{
    MatmulMode,
    launched::{Launch, note},
};

pub(super) fn matmul(lhs: FloatTensor<Flex>, rhs: FloatTensor<Flex>, mode: MatmulMode) -> FloatTensor<Flex> {
    match lhs.dtype() {
        DType::F32 => {
            let format = mode.precision.operand();
            note(match format {
                Format::F32 => GEMM,
                Format::Tf32 => emulated("f32 rounded to tf32 → f32"),
                _ => emulated("f32 rounded to bf16 → f32"),
            });
            Flex::float_matmul(round_operand(lhs, format), round_operand(rhs, format))
        }
        half @ (DType::F16 | DType::BF16) => {
            let (lhs, rhs) = (round_to(lhs, DType::F32), round_to(rhs, DType::F32));
            let product = if mode.accumulator == Accumulator::F16 {
                note(Launch {
                    kernel: "loop".into(),
                    ..emulated("16 bits widened to f32 → f16")
                });
                summed_in_f16(lhs, rhs)
            } else {
                note(emulated(match half {
                    DType::F16 => "f16 widened to f32 → f32",
                    _ => "bf16 widened to f32 → f32",
                }));
                Flex::float_matmul(lhs, rhs)
            };
            round_to(product, half)
        }
        _ => {
            note(Launch {
                arithmetic: "f64 × f64 → f64".into(),
                ..GEMM
            });
            Flex::float_matmul(lhs, rhs)
        }
    }
}

const GEMM: Launch = Launch {
    kernel: Cow::Borrowed("gemm"),
    arithmetic: Cow::Borrowed("f32 × f32 → f32"),
    emulated: false,
};

fn emulated(arithmetic: &'static str) -> Launch {
    Launch {
        arithmetic: arithmetic.into(),
        emulated: true,
        ..GEMM
    }
}

/// Product of f32 tensors that hold half values, shapes `[…, m, k] × […, k, n]`, the running sum rounded to f16 after
/// each product. No CPU unit does this: it is slow, and meant for looking at the error.
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
