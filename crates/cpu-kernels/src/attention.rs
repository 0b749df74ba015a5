//! Fused attention on the CPU, computed in f32 for 16-bit formats. The work is split into pieces, each of which processes a range of
//! queries of one head. Each thread keeps only the scores of its current piece in memory.

use burn::{
    backend::{
        TensorMetadata,
        ops::FloatTensorOps,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{DType, Shape},
};
use burn_flex::{Flex, FlexTensor, Layout};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::{
    contiguous::packed,
    convert::round_to,
    masked_fill::Mask,
    parallel_init::init_chunks,
    storage::{Stored, contiguous_tensor, row_width},
    vectorized::{Wide, softmax},
};

/// Maximum number of scores per piece, unless [`MIN_QUERIES`] queries have more. In f32, this is 256 KiB, about a quarter of a core's L2
/// cache.
const SCORES_PER_PIECE: usize = 64 * 1024;

/// Minimum number of queries per piece, if a head has as many. With fewer, rearranging the keys for the matmul takes longer than
/// multiplying them.
const MIN_QUERIES: usize = 64;

/// Computes attention on all cores. 16-bit inputs are widened to f32, and the output is rounded once.
pub fn attention(
    query: FloatTensor<Flex>,
    key: FloatTensor<Flex>,
    value: FloatTensor<Flex>,
    padding: BoolTensor<Flex>,
) -> FloatTensor<Flex> {
    let dtype = query.dtype();
    let wide = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let operands = [query, key, value].map(|tensor| packed(round_to(tensor, wide)));
    let output = match wide {
        DType::F64 => attention_in::<f64>(operands, padding),
        _ => attention_in::<f32>(operands, padding),
    };
    round_to(output, dtype)
}

fn attention_in<W: Wide + Stored>([query, key, value]: [FlexTensor; 3], padding: FlexTensor) -> FlexTensor {
    let [n, heads, queries, query_width] = query.shape().dims();
    let [.., keys, value_width] = value.shape().dims::<4>();
    // The matmuls below rely on these shapes without further checks.
    assert_eq!(
        key.shape().dims(),
        [n, heads, keys, query_width],
        "keys must have the batch, heads and width of the queries"
    );
    assert_eq!(
        value.shape().dims(),
        [n, heads, keys, value_width],
        "values must have the batch, heads and length of the keys"
    );
    assert_eq!(
        padding.shape().dims(),
        [n, heads, queries, keys],
        "the mask must have the shape of the scores"
    );
    let shape = Shape::new([n, heads, queries, value_width]);
    if shape.num_elements() == 0 || keys == 0 {
        return contiguous_tensor(vec![W::default(); shape.num_elements()], shape);
    }
    let scale = W::round_from_f64(1.0 / (query_width as f64).sqrt());
    let padding = Mask::new(padding);
    let queries_per_piece = (SCORES_PER_PIECE / keys).max(MIN_QUERIES);
    let values_per_head = queries * value_width;
    let out = init_chunks(
        n * heads * values_per_head,
        values_per_head,
        |range, out: &mut [W]| {
            let head = range.start / values_per_head;
            let pieces = out.par_chunks_mut(queries_per_piece * value_width).enumerate();
            pieces.for_each(|(piece, out)| {
                let first = head * queries + piece * queries_per_piece;
                let queries = rows(&query, first, out.len() / value_width);
                let keys_across = rows(&key, head * keys, keys).transpose(0, 1);
                let mut scores = Flex::float_matmul(queries, keys_across);
                Arch::new().dispatch(AttentionWeights {
                    scores: scores.storage_mut::<W>(),
                    keys,
                    scale,
                    padding: &padding,
                    first,
                });
                let output = Flex::float_matmul(scores, rows(&value, head * keys, keys));
                out.copy_from_slice(output.storage());
            });
        },
    );
    contiguous_tensor(out, shape)
}

/// Returns some rows of a contiguous tensor, as a matrix.
fn rows(tensor: &FlexTensor, first: usize, count: usize) -> FlexTensor {
    let width = row_width(&tensor.shape());
    let layout = Layout::new(Shape::new([count, width]), vec![width as isize, 1], first * width);
    FlexTensor::from_arc(tensor.data_arc(), layout, tensor.dtype())
}

/// Replaces scores by attention weights, row by row.
struct AttentionWeights<'a, W> {
    scores: &'a mut [W],
    keys: usize,
    scale: W,
    padding: &'a Mask,
    /// Row of the padding that belongs to the first row of scores.
    first: usize,
}

impl<W: Wide> WithSimd for AttentionWeights<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut weights = vec![W::zero(); self.keys];
        for (row, scores) in self.scores.chunks_exact_mut(self.keys).enumerate() {
            scores.iter_mut().for_each(|x| *x = *x * self.scale);
            self.padding
                .masked_fill(self.first + row, scores, W::neg_infinity());
            if scores.iter().all(|x| *x == W::neg_infinity()) {
                // If all keys are hidden, the output is zero, as in burn's attention.
                scores.fill(W::zero());
                continue;
            }
            softmax(simd, scores, &mut weights);
            scores.copy_from_slice(&weights);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::ops::{AttentionModuleOptions, ModuleOps},
        tensor::{Bool, Device, Distribution, Tensor, TensorData},
    };

    use super::*;

    type Tensors = [Tensor<4>; 3];

    /// Returns random queries, keys and values of `n` sequences and `heads` heads, as views of projections.
    fn random_inputs([n, heads, queries, keys]: [usize; 4], dtype: DType) -> Tensors {
        let device = Device::flex();
        let random = |(positions, width)| {
            let shape = [n, positions, heads, width];
            let values = Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
            Tensor::<4>::from_data(values.into_data(), (&device, dtype)).swap_dims(1, 2)
        };
        [(queries, 24), (keys, 24), (keys, 40)].map(random)
    }

    /// Returns the largest difference from burn's attention in f64.
    fn max_difference(tensors: &Tensors, padding: &Tensor<4, Bool>) -> f64 {
        let device = Device::flex();
        let primitive = |tensor: Tensor<4>| tensor.try_into_primitive::<Flex>().unwrap();
        let values = |tensor| {
            let tensor = Tensor::<4>::from_primitive::<Flex>(tensor);
            tensor.into_data().iter::<f64>().collect::<Vec<_>>()
        };
        let [q, k, v] = tensors.clone().map(primitive);
        let ours = values(attention(
            q,
            k,
            v,
            padding.clone().try_into_primitive::<Flex>().unwrap(),
        ));
        let [q, k, v] = tensors
            .clone()
            .map(|tensor| primitive(Tensor::from_data(tensor.into_data(), (&device, DType::F64))));
        let padding = padding.clone().try_into_primitive::<Flex>().unwrap();
        let theirs = Flex::attention(q, k, v, Some(padding), None, AttentionModuleOptions::default());
        let theirs = values(theirs);
        assert_eq!(ours.len(), theirs.len());
        let differences = ours.iter().zip(&theirs).map(|(x, y)| (x - y).abs());
        differences.fold(0.0, mantissa_testing::worse)
    }

    #[test]
    fn nan_is_propagated_for_any_number_of_keys() {
        let device = Device::flex();
        for keys in [1, 15, 16, 33] {
            let [query, key, value] = random_inputs([1, 1, 1, keys], DType::F32);
            let query = query * f32::NAN;
            let padding = Tensor::<4, Bool>::full([1, 1, 1, keys], false, &device);
            let [q, k, v] = [query, key, value].map(|tensor| tensor.try_into_primitive::<Flex>().unwrap());
            let output = attention(q, k, v, padding.try_into_primitive::<Flex>().unwrap());
            assert!(output.into_data().iter::<f64>().all(f64::is_nan), "{keys} keys");
        }
    }

    #[test]
    #[should_panic(expected = "keys must have the batch")]
    fn keys_of_another_batch_size_are_rejected() {
        let [query, ..] = random_inputs([2, 1, 1, 7], DType::F32);
        let [_, key, value] = random_inputs([1, 1, 1, 7], DType::F32);
        let padding = Tensor::<4, Bool>::full([2, 1, 1, 7], false, &Device::flex());
        let [q, k, v] = [query, key, value].map(|tensor| tensor.try_into_primitive::<Flex>().unwrap());
        attention(q, k, v, padding.try_into_primitive::<Flex>().unwrap());
    }

    #[test]
    fn attention_matches_burn_in_f64_for_every_mask() {
        let device = Device::flex();
        device.seed(11);
        // Shapes with a single piece, with several pieces of which one is partial, and with one query as in text generation.
        for shape @ [n, heads, queries, keys] in [[2, 3, 7, 7], [1, 2, 150, 1100], [2, 2, 1, 33]] {
            let mask = |dims: [usize; 4], hides: fn(usize) -> bool| {
                let hidden = (0..dims.iter().product()).map(hides).collect::<Vec<_>>();
                Tensor::<4, Bool>::from_data(TensorData::new(hidden, dims), &device).expand(shape)
            };
            let masks = [
                mask([1, 1, 1, 1], |_| false),
                mask([n, 1, 1, keys], |at| at % 5 > 2),
                mask([1, 1, queries, keys], |at| at % 7 == 3),
                mask([n, heads, queries, 1], |at| at % 3 == 1),
            ];
            for padding in &masks {
                for (dtype, bound) in [
                    (DType::F64, 1e-13),
                    (DType::F32, 3e-6),
                    (DType::F16, 2e-3),
                    (DType::BF16, 2e-2),
                ] {
                    let difference = max_difference(&random_inputs(shape, dtype), padding);
                    assert!(difference < bound, "{shape:?} {dtype:?}: {difference:e}");
                }
            }
        }
    }
}
