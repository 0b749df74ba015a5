//! Embeddings: rows of a table, or the same rows for every sequence.

use burn::{
    backend::Dispatch,
    tensor::{Int, Tensor},
};

use super::Compute;
use crate::{
    backend::PrecisionBackend,
    tensor_ops::{primitive, round, tensor_of, wide},
};

impl Compute {
    /// Looks up `rows` `[n]` of a `table` `[rows, width]` and returns `[n, width]`. For a row that is read several times, the gradient is
    /// summed in at least f32 and rounded once, as in PyTorch on CUDA. A running sum of ones in bf16 would stop at 256.
    pub fn embedding(&self, table: Tensor<2>, rows: Tensor<1, Int>) -> Tensor<2> {
        tensor_of(Dispatch::embedding_lookup(primitive(table), rows.into_dispatch()))
    }

    /// Repeats a matrix `[rows, width]` to `[times, rows, width]`. Its gradient is summed in at least f32 and rounded once.
    pub fn repeated(&self, rows: Tensor<2>, times: usize) -> Tensor<3> {
        let (dtype, [count, width]) = (rows.dtype(), rows.dims());
        let repeated = wide(rows).unsqueeze::<3>().expand([times, count, width]);
        round(repeated, dtype)
    }
}
