//! Attention, in one kernel or in separate steps, and rotary position embeddings.

use burn::{backend::Dispatch, tensor::Tensor};
use mantissa_core::Attention;

use super::Compute;
use crate::{
    attention::lowest,
    attention_mask::AttentionMask,
    autocast::Operation,
    backend::PrecisionBackend,
    dropout::Dropout,
    rotation::Rotation,
    tensor_ops::{primitive, round, tensor_of, wide},
};

impl Compute {
    /// Computes attention of `query` `[n, heads, queries, width]` to `key` and `value` `[n, heads / group, keys, width]` under `mask`.
    /// Groups of `group` adjacent heads share keys and values. Attention in separate steps runs two matmuls and a softmax, each in the
    /// format of its class, and applies `dropout` to the attention weights. Fused attention runs one kernel, which defines the arithmetic.
    ///
    /// # Panics
    /// If attention is fused and there is a `dropout` or a bias, which the fused kernel does not support.
    pub fn attention(
        &self,
        [query, key, value]: [Tensor<4>; 3],
        mask: &AttentionMask,
        dropout: Option<Dropout<'_>>,
    ) -> Tensor<4> {
        let [n, heads, queries, width] = query.dims();
        let [_, shared, keys, _] = key.dims();
        if self.attention == Attention::Fused {
            let drops = dropout.is_some_and(|dropout| dropout.share > 0.0);
            assert!(!drops, "fused attention does not support dropout");
            assert!(mask.bias().is_none(), "fused attention does not support a bias");
            let hidden = mask.hidden([n, heads, queries, keys], &query.device());
            let [key, value] = [key, value].map(|part| repeat_for_heads(part, heads));
            let inputs = self.cast(Operation::Attention, [query, key, value]);
            let [query, key, value] = inputs.map(primitive);
            let hidden = hidden.into_dispatch();
            return tensor_of(Dispatch::fused_attention(query, key, value, hidden, self.mode));
        }
        // The queries of heads that share their keys become rows of one matmul.
        let group_queries = |part: Tensor<4>| match heads / shared {
            1 => part,
            group => {
                let [.., columns] = part.dims();
                part.reshape([n, shared, group * queries, columns])
            }
        };
        let scores = self.matmul_by_columns(group_queries(query), key);
        let scores = scores.reshape([n, heads, queries, keys]);
        let dtype = scores.dtype();
        let scaled = wide(scores).mul_scalar(1.0 / (width as f64).sqrt());
        let biased = match mask.bias() {
            Some(bias) => scaled.clone() + round(bias.clone(), scaled.dtype()),
            None => scaled,
        };
        let scores = self.round_to_emulated(round(biased, dtype));
        let scores = if mask.hides_keys() {
            let hidden = mask.hidden([n, heads, queries, keys], &scores.device());
            let lowest = lowest(dtype);
            tensor_of(Dispatch::masked_fill(
                primitive(scores),
                hidden.into_dispatch(),
                lowest,
            ))
        } else {
            scores
        };
        let weights = self.softmax(scores);
        let weights = match dropout {
            Some(dropout) => self.dropout(weights, dropout),
            None => weights,
        };
        self.matmul(group_queries(weights), value)
            .reshape([n, heads, queries, width])
    }

    /// Rotates pairs of elements of `input` `[n, heads, sequence, width]` by the angles of their positions (arXiv 2104.09864), in
    /// at least f32, and rounds once. Models that compute this in 16-bit formats also round each intermediate result and the sine.
    pub fn rotary(&self, input: Tensor<4>, rotation: &Rotation) -> Tensor<4> {
        self.round_to_emulated(rotation.rotate(input))
    }
}

/// Repeats keys or values `[n, shared, keys, width]` for every head that shares them.
fn repeat_for_heads(part: Tensor<4>, heads: usize) -> Tensor<4> {
    let [n, shared, keys, width] = part.dims();
    if shared == heads {
        return part;
    }
    let repeated = part.unsqueeze_dim::<5>(2);
    let repeated = repeated.expand([n, shared, heads / shared, keys, width]);
    repeated.reshape([n, heads, keys, width])
}
