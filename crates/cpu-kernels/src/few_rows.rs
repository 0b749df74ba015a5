//! Matmuls of few rows with the weights of a layer, as in generation token by token. They are bound by memory bandwidth, so the weights
//! are read only once, in their stored layout.

use std::array::from_fn;

use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{Bytes, DType, Shape},
};
use burn_flex::{Flex, FlexTensor, Layout};
use half::{bf16, f16};
use mantissa_core::Format;
use num_traits::Zero;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::{
    bf16_matmul::{self, Instruction},
    contiguous::packed,
    rounding::{round_bf16, round_tf32},
    storage::{BLOCK, Stored},
    vectorized::Wide,
};

/// Maximum number of rows. With more rows, rearranging the weights is faster.
pub const MOST_ROWS: usize = 8;

/// Minimum number of weights. With fewer, starting threads takes longer than reading them.
const FEWEST_WEIGHTS: usize = 1 << 16;

/// Multiplies `[m, k]` with a transposed view `[k, n]` of weights, if `m` is small and there are many weights. Returns unrounded sums
/// in f32, or in f64 for f64.
pub fn few_rows_matmul(
    lhs: &FloatTensor<Flex>,
    rhs: &FloatTensor<Flex>,
    format: Format,
) -> Option<FloatTensor<Flex>> {
    let ([m, k], [_, n]) = (matrix(lhs)?, matrix(rhs)?);
    let transposed = rhs.layout().strides() == [1, k as isize];
    if !transposed || m == 0 || m > MOST_ROWS || n * k < FEWEST_WEIGHTS {
        return None;
    }
    Some(match (lhs.dtype(), format, Instruction::here()) {
        (DType::F32, Format::Bf16, Some(with)) => rows::<f32, _>(lhs, rhs, Pairs(with)),
        (DType::BF16, _, Some(with)) => rows::<bf16, _>(lhs, rhs, Pairs(with)),
        (DType::F64, ..) => rows::<f64, _>(lhs, rhs, Unchanged),
        (DType::F32, Format::Tf32, _) => rows::<f32, _>(lhs, rhs, Rounded(round_tf32)),
        (DType::F32, Format::Bf16, None) => rows::<f32, _>(lhs, rhs, Rounded(round_bf16)),
        (DType::F32, ..) => rows::<f32, _>(lhs, rhs, Unchanged),
        (DType::F16, ..) => rows::<f16, _>(lhs, rhs, Widened),
        (DType::BF16, ..) => rows::<bf16, _>(lhs, rhs, Widened),
        _ => return None,
    })
}

fn matrix(tensor: &FlexTensor) -> Option<[usize; 2]> {
    let shape = tensor.shape();
    (shape.num_dims() == 2).then(|| [shape[0], shape[1]])
}

/// Conversion of stored values to those that a multiplier reads.
trait Seen<T: Stored>: Copy + Sync {
    /// Converted value.
    type Value: Copy + Default + Sync;
    /// Converts values, into `place` if they have to be copied.
    fn seen<'a>(self, stored: &'a [T], place: &'a mut [Self::Value]) -> &'a [Self::Value];
    /// Computes the dot product of converted values.
    fn dot<S: Simd>(self, simd: S, a: &[Self::Value], b: &[Self::Value]) -> T::Wide;

    /// Adds the dot product of `weights` and the first values of each row to `sums`. Rows are `k` values apart.
    #[inline(always)]
    fn add<S: Simd>(
        self,
        simd: S,
        (rows, k): (&[Self::Value], usize),
        weights: &[Self::Value],
        sums: &mut [T::Wide],
    ) {
        for (row, sum) in rows.chunks(k).zip(sums) {
            *sum = *sum + self.dot(simd, &row[..weights.len()], weights);
        }
    }
}

/// Reads values as they are stored.
#[derive(Clone, Copy)]
struct Unchanged;

impl<W: Stored<Wide = W> + Wide> Seen<W> for Unchanged {
    type Value = W;

    #[inline(always)]
    fn seen<'a>(self, stored: &'a [W], _: &'a mut [W]) -> &'a [W] {
        stored
    }

    #[inline(always)]
    fn dot<S: Simd>(self, simd: S, a: &[W], b: &[W]) -> W {
        W::dot(simd, a, b)
    }
}

/// Widens 16-bit formats to f32.
#[derive(Clone, Copy)]
struct Widened;

impl<T: Stored> Seen<T> for Widened {
    type Value = T::Wide;

    #[inline(always)]
    fn seen<'a>(self, stored: &'a [T], place: &'a mut [T::Wide]) -> &'a [T::Wide] {
        let place = &mut place[..stored.len()];
        T::widen(stored, place);
        place
    }

    #[inline(always)]
    fn dot<S: Simd>(self, simd: S, a: &[T::Wide], b: &[T::Wide]) -> T::Wide {
        T::Wide::dot(simd, a, b)
    }
}

/// Rounds values.
#[derive(Clone, Copy)]
struct Rounded<F>(F);

impl<F: Fn(f32) -> f32 + Copy + Sync> Seen<f32> for Rounded<F> {
    type Value = f32;

    #[inline(always)]
    fn seen<'a>(self, stored: &'a [f32], place: &'a mut [f32]) -> &'a [f32] {
        let place = &mut place[..stored.len()];
        stored
            .iter()
            .zip(&mut *place)
            .for_each(|(x, y)| *y = (self.0)(*x));
        place
    }

    #[inline(always)]
    fn dot<S: Simd>(self, simd: S, a: &[f32], b: &[f32]) -> f32 {
        f32::dot(simd, a, b)
    }
}

/// Reads values as bf16, for the processor's bf16 instruction.
#[derive(Clone, Copy)]
struct Pairs(Instruction);

impl Seen<bf16> for Pairs {
    type Value = bf16;

    #[inline(always)]
    fn seen<'a>(self, stored: &'a [bf16], _: &'a mut [bf16]) -> &'a [bf16] {
        stored
    }

    #[inline(always)]
    fn dot<S: Simd>(self, _: S, a: &[bf16], b: &[bf16]) -> f32 {
        let [sum] = bf16_matmul::dots(self.0, [a], b);
        sum
    }

    #[inline(always)]
    fn add<S: Simd>(self, _: S, rows: (&[bf16], usize), weights: &[bf16], sums: &mut [f32]) {
        add_pairs(self.0, rows, weights, sums);
    }
}

impl Seen<f32> for Pairs {
    type Value = bf16;

    #[inline(always)]
    fn seen<'a>(self, stored: &'a [f32], place: &'a mut [bf16]) -> &'a [bf16] {
        let place = &mut place[..stored.len()];
        bf16::narrow(stored, place);
        place
    }

    #[inline(always)]
    fn dot<S: Simd>(self, _: S, a: &[bf16], b: &[bf16]) -> f32 {
        let [sum] = bf16_matmul::dots(self.0, [a], b);
        sum
    }

    #[inline(always)]
    fn add<S: Simd>(self, _: S, rows: (&[bf16], usize), weights: &[bf16], sums: &mut [f32]) {
        add_pairs(self.0, rows, weights, sums);
    }
}

/// Computes several rows at once, to load the weights only once.
fn add_pairs(with: Instruction, (rows, k): (&[bf16], usize), weights: &[bf16], sums: &mut [f32]) {
    const AT_ONCE: usize = 4;
    let row = |number: usize| &rows[number * k..][..weights.len()];
    let (fours, rest) = sums.as_chunks_mut::<AT_ONCE>();
    let first_of_rest = AT_ONCE * fours.len();
    for (number, sums) in fours.iter_mut().enumerate() {
        let more: [f32; AT_ONCE] = bf16_matmul::dots(with, from_fn(|at| row(AT_ONCE * number + at)), weights);
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    for (number, sum) in rest.iter_mut().enumerate() {
        let [more] = bf16_matmul::dots(with, [row(first_of_rest + number)], weights);
        *sum += more;
    }
}

fn rows<T: Stored, S: Seen<T>>(lhs: &FlexTensor, rhs: &FlexTensor, see: S) -> FlexTensor {
    let lhs = packed(lhs.clone());
    let ([m, k], n) = ([lhs.shape()[0], lhs.shape()[1]], rhs.shape()[1]);
    let mut place = vec![S::Value::default(); m * k];
    let inputs = see.seen(lhs.storage::<T>(), &mut place);
    let weights = &rhs.storage::<T>()[rhs.layout().start_offset()..][..n * k];
    // Each row of weights yields a column of the result.
    let mut columns = vec![T::Wide::zero(); n * m];
    let together = (FEWEST_WEIGHTS / k).max(1);
    columns
        .par_chunks_mut(together * m)
        .zip(weights.par_chunks(together * k))
        .for_each(|(sums, weights)| {
            Arch::new().dispatch(Columns {
                weights,
                inputs,
                sums,
                k,
                see,
            });
        });
    let shape = Shape::new([m, n]);
    if m == 1 {
        return stored(columns, shape);
    }
    let product = (0..m * n).map(|at| columns[at % n * m + at / n]);
    stored(product.collect(), shape)
}

fn stored<W: Wide>(values: Vec<W>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), W::dtype())
}

struct Columns<'a, T: Stored, See: Seen<T>> {
    weights: &'a [T],
    inputs: &'a [See::Value],
    sums: &'a mut [T::Wide],
    k: usize,
    see: See,
}

impl<T: Stored, See: Seen<T>> WithSimd for Columns<'_, T, See> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut place = [See::Value::default(); BLOCK];
        let m = self.inputs.len() / self.k;
        let rows = self.weights.chunks_exact(self.k);
        for (weights, sums) in rows.zip(self.sums.chunks_exact_mut(m)) {
            for (number, weights) in weights.chunks(BLOCK).enumerate() {
                let seen = self.see.seen(weights, &mut place);
                let inputs = &self.inputs[number * BLOCK..];
                self.see.add(simd, (inputs, self.k), seen, sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[test]
    fn other_matmuls_are_not_handled_by_the_kernel_for_few_rows() {
        let device = Device::flex();
        let ones = |shape: [usize; 2]| Tensor::<2>::ones(shape, &device);
        let served = |lhs: Tensor<2>, rhs: Tensor<2>| {
            let [lhs, rhs] = [lhs, rhs].map(|tensor| tensor.try_into_primitive::<Flex>().unwrap());
            few_rows_matmul(&lhs, &rhs, Format::F32).is_some()
        };
        assert!(served(ones([1, 512]), ones([256, 512]).transpose()));
        assert!(!served(ones([9, 512]), ones([256, 512]).transpose()));
        assert!(!served(ones([1, 512]), ones([512, 256])));
        assert!(!served(ones([1, 512]), ones([8, 512]).transpose()));
    }
}
