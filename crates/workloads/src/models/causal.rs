//! Inputs and heads of text models that predict tokens.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::data::TokenBatch;

/// Head of a text model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextHead {
    /// Classifies a text. The value is the number of classes.
    Classes(u32),
    /// Predicts tokens at some positions of a text.
    Tokens,
}

/// Micro-batch for a causal model. Padding is at the end, so that no other token attends to it.
pub(crate) struct CausalInput {
    /// Token ids, `[n, sequence]`.
    pub ids: Tensor<2, Int>,
    /// Rows of hidden states `[n · sequence, width]` for which the head computes logits.
    pub rows: Tensor<1, Int>,
}

impl CausalInput {
    /// Uploads a micro-batch to a device.
    pub(crate) fn upload(batch: &TokenBatch, device: &Device) -> Self {
        let n = batch.lengths.len();
        let shape = [n, batch.ids.len() / n];
        Self {
            ids: Tensor::from_data(TensorData::new(batch.ids.clone(), shape), device),
            rows: upload_rows(batch, device),
        }
    }
}

/// Uploads the rows of hidden states for which a micro-batch needs logits.
pub(super) fn upload_rows(batch: &TokenBatch, device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(batch.rows.clone(), [batch.rows.len()]), device)
}
