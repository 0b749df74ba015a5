//! What models of text have in common that are asked for words.

use burn::tensor::{Int, Tensor, TensorData};
use mantissa_precision::PrecisionBackend;

use crate::data::TokenBatch;

/// What a model of text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextHead {
    /// Which of so many classes a text is of.
    Classes(u32),
    /// Words at some of its places.
    Words,
}

/// A micro-batch for a model in which a position sees none after it. Padding is at the end, so that no token sees it.
pub(crate) struct CausalInput<B: PrecisionBackend> {
    /// Token ids, `[n, sequence]`.
    pub ids: Tensor<B, 2, Int>,
    /// The rows of hidden states `[n · sequence, width]` that are asked for.
    pub rows: Tensor<B, 1, Int>,
}

impl<B: PrecisionBackend> CausalInput<B> {
    /// Puts a micro-batch on a device.
    pub(crate) fn upload(batch: &TokenBatch, device: &B::Device) -> Self {
        let n = batch.lengths.len();
        let shape = [n, batch.ids.len() / n];
        Self {
            ids: Tensor::from_data(TensorData::new(batch.ids.clone(), shape), device),
            rows: upload_rows(batch, device),
        }
    }
}

/// The rows of hidden states that a micro-batch asks for.
pub(super) fn upload_rows<B: PrecisionBackend>(batch: &TokenBatch, device: &B::Device) -> Tensor<B, 1, Int> {
    Tensor::from_data(TensorData::new(batch.rows.clone(), [batch.rows.len()]), device)
}
