//! What models of text have in common that are asked for words.

use burn::tensor::{Device, Int, Tensor, TensorData};

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
pub(crate) struct CausalInput {
    /// Token ids, `[n, sequence]`.
    pub ids: Tensor<2, Int>,
    /// The rows of hidden states `[n · sequence, width]` that are asked for.
    pub rows: Tensor<1, Int>,
}

impl CausalInput {
    /// Puts a micro-batch on a device.
    pub(crate) fn upload(batch: &TokenBatch, device: &Device) -> Self {
        let n = batch.lengths.len();
        let shape = [n, batch.ids.len() / n];
        Self {
            ids: Tensor::from_data(TensorData::new(batch.ids.clone(), shape), device),
            rows: upload_rows(batch, device),
        }
    }
}

/// The rows of hidden states that a micro-batch asks for.
pub(super) fn upload_rows(batch: &TokenBatch, device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(batch.rows.clone(), [batch.rows.len()]), device)
}
