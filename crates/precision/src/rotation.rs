//! Rotary position embeddings (arXiv 2104.09864).

use std::ops::Range;

use burn::{
    backend::Dispatch,
    tensor::{DType, Device, Tensor, TensorData},
};

use crate::{
    backend::PrecisionBackend,
    tensor_ops::{primitive, tensor_of},
};

/// Cosine and sine of the rotation angle of each pair of elements of a head at each position.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// `[1, 1, sequence, width / 2]`.
    cosine: Tensor<4>,
    /// `[1, 1, sequence, width / 2]`.
    sine: Tensor<4>,
    interleaved: bool,
}

impl Rotation {
    /// Computes the angles of `positions` from the `frequencies` of a head's pairs, in radians per position, `[width / 2]`.
    /// Element `i` is paired with `i + width / 2`, or, if `interleaved`, element `2 i` with `2 i + 1`. Angles are computed in f64 and
    /// stored in `dtype`, at least f32.
    pub fn new(
        frequencies: &[f64],
        positions: Range<usize>,
        interleaved: bool,
        (device, dtype): (&Device, DType),
    ) -> Self {
        let dtype = match dtype {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let shape = [1, 1, positions.len(), frequencies.len()];
        let table = |function: fn(f64) -> f64| {
            let rows = positions.clone().flat_map(|position| {
                let angles = frequencies
                    .iter()
                    .map(move |frequency| position as f64 * frequency);
                angles.map(function)
            });
            let data = TensorData::new(rows.collect::<Vec<f64>>(), shape);
            Tensor::from_data(data.convert_dtype(dtype), (device, dtype))
        };
        Self {
            cosine: table(f64::cos),
            sine: table(f64::sin),
            interleaved,
        }
    }

    /// Rotates `input` `[n, heads, sequence, width]` and rounds once to its format.
    ///
    /// # Panics
    /// If the length or width of the rotation differs from that of the input.
    pub(crate) fn rotate(&self, input: Tensor<4>) -> Tensor<4> {
        let ([.., sequence, width], [.., positions, pairs]) = (input.dims(), self.cosine.dims());
        assert_eq!(
            (sequence, width),
            (positions, 2 * pairs),
            "the rotation has another sequence length or width than the input"
        );
        let [input, cosine, sine] = [input, self.cosine.clone(), self.sine.clone()].map(primitive);
        tensor_of(Dispatch::rotate(input, cosine, sine, self.interleaved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compute, Precision};

    #[test]
    fn pairs_are_rotated_by_position_times_frequency() {
        let device = Device::flex();
        // Two positions, one head of four elements: the pairs (1, 2) and (3, 4).
        let rotated = |interleaved: bool, row: [f64; 4]| {
            let input = Tensor::<1>::from_data([row, row].concat().as_slice(), (&device, DType::F64));
            let rotation = Rotation::new(&[0.5, 0.25], 1..3, interleaved, (&device, DType::F64));
            let compute = Compute::from(Precision::True64);
            let rotated = compute.rotary(input.reshape([1, 1, 2, 4]), &rotation);
            rotated.into_data().iter::<f64>().collect::<Vec<_>>()
        };
        let want = |position: f64| {
            let rotate = |(a, b): (f64, f64), angle: f64| {
                (
                    a * angle.cos() - b * angle.sin(),
                    b * angle.cos() + a * angle.sin(),
                )
            };
            [
                rotate((1.0, 2.0), 0.5 * position),
                rotate((3.0, 4.0), 0.25 * position),
            ]
        };
        let (interleaved, split) = (
            rotated(true, [1.0, 2.0, 3.0, 4.0]),
            rotated(false, [1.0, 3.0, 2.0, 4.0]),
        );
        for (row, position) in [1.0, 2.0].into_iter().enumerate() {
            let [(a, b), (c, d)] = want(position);
            for (got, want) in interleaved[4 * row..][..4].iter().zip([a, b, c, d]) {
                assert!((got - want).abs() < 1e-15);
            }
            for (got, want) in split[4 * row..][..4].iter().zip([a, c, b, d]) {
                assert!((got - want).abs() < 1e-15);
            }
        }
    }
}
