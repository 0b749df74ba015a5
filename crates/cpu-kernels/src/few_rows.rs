//! Matmuls of few rows with the weights of a layer, as in text generation token by token. Memory bandwidth limits their speed, so
//! the weights are read only once, in their stored layout.

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

/// Maximum number of rows. For more rows, a matmul that first rearranges the weights is faster.
pub const MAX_FEW_ROWS: usize = 8;

/// Minimum number of weights. With fewer weights, starting threads takes longer than reading the weights.
const MIN_WEIGHTS: usize = 1 << 16;

/// Multiplies `[m, k]` with a transposed view `[k, n]` of weights. Returns unrounded sums in f32, or in f64 for f64. Returns `None` if `m`
/// is above [`MAX_FEW_ROWS`], if there are fewer than `MIN_WEIGHTS` weights, or if `rhs` is not such a view.
pub fn few_rows_matmul(
    lhs: &FloatTensor<Flex>,
    rhs: &FloatTensor<Flex>,
    format: Format,
) -> Option<FloatTensor<Flex>> {
    let ([m, k], [_, n]) = (matrix_shape(lhs)?, matrix_shape(rhs)?);
    let transposed = rhs.layout().strides() == [1, k as isize];
    if !transposed || m == 0 || m > MAX_FEW_ROWS || n * k < MIN_WEIGHTS {
        return None;
    }
    Some(match (lhs.dtype(), format, Instruction::detect()) {
        (DType::F32, Format::Bf16, Some(instruction)) => {
            multiply_rows::<f32, _>(lhs, rhs, Pairs(instruction))
        }
        (DType::BF16, _, Some(instruction)) => multiply_rows::<bf16, _>(lhs, rhs, Pairs(instruction)),
        (DType::F64, ..) => multiply_rows::<f64, _>(lhs, rhs, Unchanged),
        (DType::F32, Format::Tf32, _) => multiply_rows::<f32, _>(lhs, rhs, Rounded(round_tf32)),
        (DType::F32, Format::Bf16, None) => multiply_rows::<f32, _>(lhs, rhs, Rounded(round_bf16)),
        (DType::F32, ..) => multiply_rows::<f32, _>(lhs, rhs, Unchanged),
        (DType::F16, ..) => multiply_rows::<f16, _>(lhs, rhs, Widened),
        (DType::BF16, ..) => multiply_rows::<bf16, _>(lhs, rhs, Widened),
        _ => return None,
    })
}

fn matrix_shape(tensor: &FlexTensor) -> Option<[usize; 2]> {
    let shape = tensor.shape();
    (shape.num_dims() == 2).then(|| [shape[0], shape[1]])
}

/// Conversion of stored values to the values that are multiplied.
trait Conversion<T: Stored>: Copy + Sync {
    /// Converted value.
    type Value: Copy + Default + Sync;
    /// Converts values, into `buffer` if they have to be copied.
    fn convert<'a>(self, stored: &'a [T], buffer: &'a mut [Self::Value]) -> &'a [Self::Value];
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

impl<W: Stored<Wide = W> + Wide> Conversion<W> for Unchanged {
    type Value = W;

    #[inline(always)]
    fn convert<'a>(self, stored: &'a [W], _: &'a mut [W]) -> &'a [W] {
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

impl<T: Stored> Conversion<T> for Widened {
    type Value = T::Wide;

    #[inline(always)]
    fn convert<'a>(self, stored: &'a [T], buffer: &'a mut [T::Wide]) -> &'a [T::Wide] {
        let buffer = &mut buffer[..stored.len()];
        T::widen(stored, buffer);
        buffer
    }

    #[inline(always)]
    fn dot<S: Simd>(self, simd: S, a: &[T::Wide], b: &[T::Wide]) -> T::Wide {
        T::Wide::dot(simd, a, b)
    }
}

/// Rounds f32 values with a function.
#[derive(Clone, Copy)]
struct Rounded<F>(F);

impl<F: Fn(f32) -> f32 + Copy + Sync> Conversion<f32> for Rounded<F> {
    type Value = f32;

    #[inline(always)]
    fn convert<'a>(self, stored: &'a [f32], buffer: &'a mut [f32]) -> &'a [f32] {
        let buffer = &mut buffer[..stored.len()];
        stored
            .iter()
            .zip(&mut *buffer)
            .for_each(|(x, y)| *y = (self.0)(*x));
        buffer
    }

    #[inline(always)]
    fn dot<S: Simd>(self, simd: S, a: &[f32], b: &[f32]) -> f32 {
        f32::dot(simd, a, b)
    }
}

/// Reads values as bf16, for the processor's bf16 instruction.
#[derive(Clone, Copy)]
struct Pairs(Instruction);

impl Conversion<bf16> for Pairs {
    type Value = bf16;

    #[inline(always)]
    fn convert<'a>(self, stored: &'a [bf16], _: &'a mut [bf16]) -> &'a [bf16] {
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

impl Conversion<f32> for Pairs {
    type Value = bf16;

    #[inline(always)]
    fn convert<'a>(self, stored: &'a [f32], buffer: &'a mut [bf16]) -> &'a [bf16] {
        let buffer = &mut buffer[..stored.len()];
        bf16::narrow(stored, buffer);
        buffer
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

/// Implements [`Conversion::add`] for bf16. Multiplies several rows at once, to load the weights only once.
fn add_pairs(instruction: Instruction, (rows, k): (&[bf16], usize), weights: &[bf16], sums: &mut [f32]) {
    const ROWS_AT_ONCE: usize = 4;
    let row = |number: usize| &rows[number * k..][..weights.len()];
    let (groups, rest) = sums.as_chunks_mut::<ROWS_AT_ONCE>();
    let grouped = ROWS_AT_ONCE * groups.len();
    for (number, sums) in groups.iter_mut().enumerate() {
        let dots: [f32; ROWS_AT_ONCE] = bf16_matmul::dots(
            instruction,
            from_fn(|at| row(ROWS_AT_ONCE * number + at)),
            weights,
        );
        sums.iter_mut().zip(dots).for_each(|(sum, dot)| *sum += dot);
    }
    for (number, sum) in rest.iter_mut().enumerate() {
        let [dot] = bf16_matmul::dots(instruction, [row(grouped + number)], weights);
        *sum += dot;
    }
}

fn multiply_rows<T: Stored, S: Conversion<T>>(
    lhs: &FlexTensor,
    rhs: &FlexTensor,
    conversion: S,
) -> FlexTensor {
    let lhs = packed(lhs.clone());
    let ([m, k], n) = ([lhs.shape()[0], lhs.shape()[1]], rhs.shape()[1]);
    let mut buffer = vec![S::Value::default(); m * k];
    let inputs = conversion.convert(lhs.storage::<T>(), &mut buffer);
    let weights = &rhs.storage::<T>()[rhs.layout().start_offset()..][..n * k];
    // Each row of weights yields a column of the result.
    let mut columns = vec![T::Wide::zero(); n * m];
    let columns_at_once = (MIN_WEIGHTS / k).max(1);
    columns
        .par_chunks_mut(columns_at_once * m)
        .zip(weights.par_chunks(columns_at_once * k))
        .for_each(|(sums, weights)| {
            Arch::new().dispatch(Columns {
                weights,
                inputs,
                sums,
                k,
                conversion,
            });
        });
    let shape = Shape::new([m, n]);
    if m == 1 {
        return wide_tensor(columns, shape);
    }
    let product = (0..m * n).map(|at| columns[at % n * m + at / n]);
    wide_tensor(product.collect(), shape)
}

fn wide_tensor<W: Wide>(values: Vec<W>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), W::dtype())
}

struct Columns<'a, T: Stored, C: Conversion<T>> {
    weights: &'a [T],
    inputs: &'a [C::Value],
    sums: &'a mut [T::Wide],
    k: usize,
    conversion: C,
}

impl<T: Stored, C: Conversion<T>> WithSimd for Columns<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut buffer = [C::Value::default(); BLOCK];
        let m = self.inputs.len() / self.k;
        let rows = self.weights.chunks_exact(self.k);
        for (weights, sums) in rows.zip(self.sums.chunks_exact_mut(m)) {
            for (number, weights) in weights.chunks(BLOCK).enumerate() {
                let converted = self.conversion.convert(weights, &mut buffer);
                let inputs = &self.inputs[number * BLOCK..];
                self.conversion.add(simd, (inputs, self.k), converted, sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[test]
    fn only_few_rows_with_many_transposed_weights_are_supported() {
        let device = Device::flex();
        let ones = |shape: [usize; 2]| Tensor::<2>::ones(shape, &device);
        let is_supported = |lhs: Tensor<2>, rhs: Tensor<2>| {
            let [lhs, rhs] = [lhs, rhs].map(|tensor| tensor.try_into_primitive::<Flex>().unwrap());
            few_rows_matmul(&lhs, &rhs, Format::F32).is_some()
        };
        assert!(is_supported(ones([1, 512]), ones([256, 512]).transpose()));
        assert!(!is_supported(ones([9, 512]), ones([256, 512]).transpose()));
        assert!(!is_supported(ones([1, 512]), ones([512, 256])));
        assert!(!is_supported(ones([1, 512]), ones([8, 512]).transpose()));
    }
}
