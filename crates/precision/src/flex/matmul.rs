//! Matrix products on the CPU: operands rounded to what a tensor core would see, then multiplied and summed in f32.
//!
//! Half operands are widened exactly, summed in f32 and rounded once: burn's own f16 product stores partial sums of
//! long rows in f16.

use burn::tensor::{
    DType,
    ops::{FloatTensor, FloatTensorOps},
};
use burn_flex::Flex;

use super::convert::{round_operand, round_to};
use crate::MatmulMode;

pub(super) fn matmul(lhs: FloatTensor<Flex>, rhs: FloatTensor<Flex>, mode: MatmulMode) -> FloatTensor<Flex> {
    match lhs.dtype() {
        DType::F32 => {
            let format = mode.precision.operand();
            Flex::float_matmul(round_operand(lhs, format), round_operand(rhs, format))
        }
        half @ (DType::F16 | DType::BF16) => {
            let product = Flex::float_matmul(round_to(lhs, DType::F32), round_to(rhs, DType::F32));
            round_to(product, half)
        }
        _ => Flex::float_matmul(lhs, rhs),
    }
}
