//! burn's attention on the CPU: one pass over the keys, in f32 for halves.

use burn::tensor::{
    DType,
    ops::{AttentionModuleOptions, BoolTensor, FloatTensor, ModuleOps},
};
use burn_flex::Flex;

use super::convert::round_to;
use crate::launched::{Launch, note};

/// Halves are widened and rounded here: burn's own rounding to bf16 takes a value just above a tie the wrong way.
pub(super) fn attention(
    query: FloatTensor<Flex>,
    key: FloatTensor<Flex>,
    value: FloatTensor<Flex>,
    padding: BoolTensor<Flex>,
) -> FloatTensor<Flex> {
    let dtype = query.dtype();
    let (wide, arithmetic) = match dtype {
        DType::F64 => (DType::F64, "f64 × f64 → f64"),
        DType::F16 => (DType::F32, "f16 widened to f32 → f32"),
        DType::BF16 => (DType::F32, "bf16 widened to f32 → f32"),
        _ => (DType::F32, "f32 × f32 → f32"),
    };
    note(Launch {
        kernel: "attention".into(),
        arithmetic: arithmetic.into(),
        emulated: matches!(dtype, DType::F16 | DType::BF16),
    });
    let operand = |tensor| round_to(tensor, wide);
    let options = AttentionModuleOptions::default();
    let mixed = Flex::attention(
        operand(query),
        operand(key),
        operand(value),
        Some(padding),
        None,
        options,
    );
    round_to(mixed, dtype)
}
