//! Matmuls and linear layers.

use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
};

use super::Compute;
use crate::{
    autocast::Operation,
    backend::PrecisionBackend,
    matmul_mode::MatmulMode,
    tensor_ops::{primitive, round, tensor_of},
};

impl Compute {
    /// Multiplies matrices `[…, m, k] × […, k, n]`.
    pub fn matmul<const D: usize>(&self, lhs: Tensor<D>, rhs: Tensor<D>) -> Tensor<D> {
        self.multiply(self.cast(Operation::Matmul, [lhs, rhs]))
    }

    /// Multiplies matrices, with the columns of the right operand stored as rows: `[…, m, k] × […, n, k]`.
    pub fn matmul_by_columns<const D: usize>(&self, lhs: Tensor<D>, columns: Tensor<D>) -> Tensor<D> {
        let [lhs, columns] = self.cast(Operation::Matmul, [lhs, columns]).map(primitive);
        self.round_to_emulated(tensor_of(Dispatch::controlled_matmul_by_columns(
            lhs, columns, self.mode,
        )))
    }

    fn multiply<const D: usize>(&self, operands: [Tensor<D>; 2]) -> Tensor<D> {
        let [lhs, rhs] = operands.map(primitive);
        self.round_to_emulated(tensor_of(Dispatch::controlled_matmul(lhs, rhs, self.mode)))
    }

    /// Computes `input · weightᵀ + bias`, shapes `[n, in]`, `[out, in]`, `[out]`. The bias is rounded like the operands, and
    /// added before the sums are rounded, as in cuBLAS. f16 sums are already rounded before the addition.
    pub fn linear(&self, input: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
        self.linear_with(Dispatch::controlled_matmul_by_columns, [input, weight], bias)
    }

    /// Computes `input · weight + bias` with weights `[in, out]`, the layout of burn's linear layer and of GPT-2.
    pub fn linear_by_inputs(&self, input: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
        self.linear_with(Dispatch::controlled_matmul, [input, weight], bias)
    }

    fn linear_with(
        &self,
        matmul: impl Fn(DispatchTensor, DispatchTensor, MatmulMode) -> DispatchTensor,
        operands: [Tensor<2>; 2],
        bias: Tensor<1>,
    ) -> Tensor<2> {
        let operands = self.cast(Operation::Linear, operands);
        let dtype = operands[0].dtype();
        let mode = MatmulMode {
            unrounded: true,
            ..self.mode
        };
        let [lhs, rhs] = operands.map(primitive);
        let sums: Tensor<2> = tensor_of(matmul(lhs, rhs, mode));
        let bias = round(self.round_to_emulated(round(bias, dtype)), sums.dtype());
        self.round_to_emulated(round(sums + bias.unsqueeze(), dtype))
    }
}
