//! Attention of a batch of sequences, without padding.

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::AttentionShape;
use mantissa_precision::{AttentionMask, Compute};

use super::{
    error::{Formats, ResultError, compare, round_values},
    operation::{Inputs, OnBurn, Operation, upload},
};

/// Queries, keys and values, each `[batch, heads, sequence, width]`.
pub(super) struct Attention {
    operands: [Vec<f64>; 3],
    shape: [usize; 4],
}

impl Attention {
    pub(super) fn new(shape: AttentionShape, sequence: usize, inputs: &mut Inputs<'_>) -> Self {
        let [batch, heads, width] = [shape.batch, shape.heads, shape.width].map(|n| n as usize);
        let shape = [batch, heads, sequence, width];
        let operands = [(); 3].map(|()| inputs.draw(shape.iter().product()));
        Self { operands, shape }
    }
}

/// Returns one row of attention in f64, `[width]`: the weighted mean of the values for a query.
fn attend(query: &[f64], keys: &[f64], values: &[f64]) -> Vec<f64> {
    let width = query.len();
    let dot = |key: &[f64]| query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>();
    let scores: Vec<f64> = keys
        .chunks_exact(width)
        .map(|key| dot(key) / (width as f64).sqrt())
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut mixed = vec![0.0; width];
    for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
        mixed
            .iter_mut()
            .zip(value)
            .for_each(|(mixed, x)| *mixed += weight / sum * x);
    }
    mixed
}

impl OnBurn<4> for Attention {
    type OnHost = [TensorData; 3];
    type OnDevice = [Tensor<4>; 3];

    fn convert(&self, inputs: &Inputs<'_>) -> Self::OnHost {
        self.operands
            .each_ref()
            .map(|values| inputs.convert(values, self.shape))
    }

    fn upload(&self, inputs: &Self::OnHost, device: &Device) -> Self::OnDevice {
        inputs.each_ref().map(|values| upload(values, device))
    }

    fn launch(&self, operands: &Self::OnDevice, compute: &Compute) -> Tensor<4> {
        compute.attention(operands.clone(), &AttentionMask::unmasked(), None)
    }
}

impl Operation for Attention {
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>, &[f64])> {
        let names_and_values = ["queries", "keys", "values"].into_iter().zip(&self.operands);
        names_and_values
            .map(|(name, values)| (name, self.shape.to_vec(), values.as_slice()))
            .collect()
    }

    fn flops(&self) -> Option<f64> {
        let [batch, heads, sequence, width] = self.shape.map(|edge| edge as f64);
        Some(4.0 * batch * heads * sequence * sequence * width)
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let [batch, heads, sequence, width] = self.shape;
        compare(result, [batch * heads * sequence, width], formats, |row| {
            let head = row / sequence * sequence * width..(row / sequence + 1) * sequence * width;
            let query = &self.operands[0][row * width..][..width];
            let [keys, values] = [1, 2].map(|part: usize| &self.operands[part][head.clone()]);
            let reference = attend(query, keys, values);
            let from_rounded = if formats.round_operands() {
                let operand = |values: &[f64]| round_values(values, formats.operand);
                attend(&operand(query), &operand(keys), &operand(values))
            } else {
                reference.clone()
            };
            (reference, from_rounded)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_weighted_by_the_softmax_of_the_scores() {
        // The scores are ln 3 and 0 after division by the root of the width, so the weights are three quarters and one quarter.
        let query = [3f64.ln() * 2f64.sqrt(), 0.0];
        let mixed = attend(&query, &[1.0, 0.0, 0.0, 1.0], &[4.0, 8.0, 0.0, 4.0]);
        let expected = [3.0, 7.0];
        assert!(
            mixed.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-14),
            "{mixed:?}"
        );
    }
}
