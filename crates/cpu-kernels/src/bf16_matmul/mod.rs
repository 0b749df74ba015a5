//! Matmuls of bf16 matrices with the processor's own instruction (`vdpbf16ps` of AVX512-BF16), which adds two products at a time to a sum in
//! f32. Each of the two is rounded to nearest even when it is added, and subnormal operands and sums are treated as zero, according to Intel's
//! manual. PyTorch computes in the same way on these processors.
//!
//! Columns are first rearranged to the order in which the instruction reads them: in strips of a few columns, with values adjacent in depth next
//! to each other. Rows with an even depth and a stride of 1 along it are read in place, others are rearranged, too. A few rows by a strip of
//! columns then form a tile of sums that stays in registers.

mod arrange;
mod columns;
mod instruction;

use burn::{
    backend::TensorMetadata,
    tensor::{DType, Shape, calculate_matmul_output},
};
use burn_flex::FlexTensor;
use half::bf16;

use crate::{
    parallel_init::written,
    storage::{Stored, contiguous},
};

pub(crate) use arrange::Matrix;
pub(crate) use columns::Columns;
pub use instruction::Instruction;
pub(crate) use instruction::{Pairs, dots};

/// Multiplies bf16 tensors with batching and broadcasting, shapes `[…, m, k] × […, k, n]`, with sums in f32 or rounded
/// to bf16.
pub fn product(with: Instruction, lhs: FlexTensor, rhs: FlexTensor, output: DType) -> FlexTensor {
    match output {
        DType::F32 => product_in::<f32>(with, lhs, rhs),
        DType::BF16 => product_in::<bf16>(with, lhs, rhs),
        other => unreachable!("bf16 matmul cannot return {other:?}"),
    }
}

fn product_in<T: Stored<Wide = f32>>(with: Instruction, lhs: FlexTensor, rhs: FlexTensor) -> FlexTensor {
    let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).expect("operands have compatible shapes");
    let rank = shape.num_dims();
    let [m, n] = [shape[rank - 2], shape[rank - 1]];
    let of_one = |tensor: &FlexTensor| {
        tensor.shape().num_elements() == tensor.shape()[rank - 2] * tensor.shape()[rank - 1]
    };
    let (lhs, rhs) = (readable(lhs), readable(rhs));
    if shape.num_elements() == 0 || lhs.shape()[rank - 1] == 0 {
        return contiguous(vec![T::default(); shape.num_elements()], shape);
    }
    let out = if of_one(&rhs) && lhs.is_contiguous() {
        // All rows of a batch are multiplied with the same columns.
        let k = lhs.shape()[rank - 1];
        let rows = Matrix {
            values: &lhs.storage()[lhs.layout().start_offset()..],
            lanes: shape.num_elements() / n,
            depth: k,
            steps: [k, 1],
        };
        Columns::of_tensor(with, rhs).product(rows)
    } else {
        let [lhs_at, rhs_at] = [&lhs, &rhs].map(|tensor| places(tensor, &shape));
        let threads = rayon::current_num_threads().div_ceil(lhs_at.len());
        written(shape.num_elements(), m * n, |these, out: &mut [T]| {
            let (lhs_at, rhs_at) = (lhs_at[these.start / (m * n)], rhs_at[these.start / (m * n)]);
            let columns = Columns::of(with, Matrix::of(&rhs, rhs_at).turned());
            columns.times(Matrix::of(&lhs, lhs_at), out, threads);
        })
    };
    contiguous(out, shape)
}

/// Returns the tensor with rows or columns that are contiguous in memory.
fn readable(tensor: FlexTensor) -> FlexTensor {
    let strides = tensor.layout().strides();
    let side_by_side = strides.iter().rev().take(2).any(|stride| *stride == 1);
    if side_by_side && strides.iter().all(|stride| *stride >= 0) {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// Returns the offsets of the matrices of a batch, broadcast to the shape of the product.
fn places(tensor: &FlexTensor, shape: &Shape) -> Vec<usize> {
    let (own, strides) = (tensor.shape(), tensor.layout().strides());
    let mut places = vec![0];
    for dim in 0..shape.num_dims() - 2 {
        let step = if own[dim] == 1 { 0 } else { strides[dim] as usize };
        places = places
            .iter()
            .flat_map(|place| (0..shape[dim]).map(move |at| place + at * step))
            .collect();
    }
    places
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};
    use burn_flex::Flex;

    use super::*;

    /// Returns the instruction, or skips the test if the processor lacks it.
    pub(super) fn instruction() -> Option<Instruction> {
        let found = Instruction::here();
        let missing = "this processor has no AVX512-BF16".to_owned();
        mantissa_testing::is_available("avx512bf16", found.map(|_| ()).ok_or(missing));
        found
    }

    /// Returns integers from -4 to 4: sums of a few thousand products are exact in f32, in any order.
    fn whole<const D: usize>(shape: [usize; D], seed: usize) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values = (0..count)
            .map(|at| (((at * 31 + seed) * 2_654_435_761) >> 7) % 9)
            .map(|x| x as f32 - 4.0);
        Tensor::from_data(
            TensorData::new(values.collect(), shape),
            (&Device::flex(), DType::BF16),
        )
    }

    fn multiplied<const D: usize>(
        with: Instruction,
        lhs: Tensor<D>,
        rhs: Tensor<D>,
        output: DType,
    ) -> Vec<f32> {
        let [lhs, rhs] = [lhs, rhs].map(|tensor| tensor.try_into_primitive::<Flex>().unwrap());
        let product = product(with, lhs, rhs, output);
        assert_eq!(product.dtype(), output);
        product.into_data().iter().collect()
    }

    /// Computes the same in f64 loops.
    fn by_loops<const D: usize>(lhs: &Tensor<D>, rhs: &Tensor<D>) -> Vec<f32> {
        let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).unwrap();
        let (m, n, k) = (shape[D - 2], shape[D - 1], lhs.dims()[D - 1]);
        let spread = |tensor: &Tensor<D>, rows, columns| {
            let mut dims = shape.clone();
            (dims[D - 2], dims[D - 1]) = (rows, columns);
            tensor
                .clone()
                .expand::<D, _>(dims)
                .into_data()
                .iter::<f64>()
                .collect::<Vec<_>>()
        };
        let (a, b) = (spread(lhs, m, k), spread(rhs, k, n));
        let value = |at: usize| {
            let (of, row, column) = (at / (m * n), at / n % m, at % n);
            (0..k)
                .map(|p| a[(of * m + row) * k + p] * b[(of * k + p) * n + column])
                .sum::<f64>() as f32
        };
        (0..shape.num_elements()).map(value).collect()
    }

    #[test]
    fn products_of_all_shapes_and_layouts_are_those_of_loops() {
        let Some(with) = instruction() else { return };
        for (m, k, n) in [
            (1, 1, 1),
            (8, 2, 48),
            (9, 3, 49),
            (7, 33, 47),
            (130, 257, 100),
            (300, 64, 1),
            (16, 1200, 97),
        ] {
            let (a, b) = (whole([m, k], 1), whole([k, n], 2));
            let (turned_a, turned_b) = (whole([k, m], 3).transpose(), whole([n, k], 4).transpose());
            for lhs in [&a, &turned_a] {
                for rhs in [&b, &turned_b] {
                    let product = multiplied(with, lhs.clone(), rhs.clone(), DType::F32);
                    assert_eq!(product, by_loops(lhs, rhs), "{m} × {k} × {n}");
                }
            }
        }
    }

    #[test]
    fn batches_are_broadcast_and_read_in_place() {
        let Some(with) = instruction() else { return };
        let is_right = |lhs: Tensor<4>, rhs: Tensor<4>| {
            assert_eq!(
                multiplied(with, lhs.clone(), rhs.clone(), DType::F32),
                by_loops(&lhs, &rhs)
            );
        };
        // Heads of attention: the stride between positions is the width of a token.
        let heads = |seed| whole([3, 17, 5, 8], seed).swap_dims(1, 2);
        is_right(heads(1), heads(2).transpose());
        is_right(heads(1).transpose(), heads(2));
        is_right(whole([3, 1, 9, 4], 1), whole([1, 5, 4, 50], 2));
        is_right(whole([3, 5, 9, 4], 1), whole([1, 1, 4, 50], 2));
        is_right(heads(1), whole([1, 1, 8, 20], 2));
        is_right(whole([1, 1, 9, 17], 1), heads(2));
        // Windows and every second row or column of a larger tensor, and their transposes.
        let large = whole([2, 2, 30, 40], 5);
        is_right(
            large.clone().narrow(2, 3, 11).narrow(3, 5, 16),
            heads(2).narrow(0, 0, 2).narrow(1, 1, 2).narrow(2, 0, 16),
        );
        let steps = large.slice(burn::tensor::s![.., .., 0..30;2, 0..32;2]);
        is_right(steps.clone(), whole([2, 2, 16, 3], 1));
        is_right(steps.flip([2, 3]), whole([2, 2, 16, 3], 1));
    }

    #[test]
    fn sums_in_bf16_are_rounded_once() {
        let Some(with) = instruction() else { return };
        let (a, b) = (whole([20, 999], 1), whole([999, 70], 2));
        let rounded: Vec<f32> = by_loops(&a, &b)
            .into_iter()
            .map(bf16::from_f32)
            .map(f32::from)
            .collect();
        assert_eq!(multiplied(with, a, b, DType::BF16), rounded);
    }

    #[test]
    fn non_finite_values_stay_in_their_row_and_column_and_subnormals_are_zero() {
        let Some(with) = instruction() else { return };
        let of = |values: Vec<f32>, shape| {
            Tensor::<2>::from_data(TensorData::new(values, shape), (&Device::flex(), DType::BF16))
        };
        let rows = of(
            vec![1.0, 2.0, 3.0, f32::INFINITY, 1.0, 1.0, 1.0, f32::NAN, 1.0],
            [3, 3],
        );
        let product = multiplied(with, rows, of(vec![1.0, 0.5, 0.0], [3, 1]), DType::F32);
        assert_eq!(product[..2], [2.0, f32::INFINITY]);
        assert!(product[2].is_nan());
        let smallest = f32::MIN_POSITIVE;
        let product = multiplied(
            with,
            of(vec![smallest, smallest / 2.0], [2, 1]),
            of(vec![1.0, 4.0], [1, 2]),
            DType::F32,
        );
        assert_eq!(product, [smallest, 4.0 * smallest, 0.0, 0.0]);
    }

    #[test]
    fn an_empty_sum_is_zero() {
        let Some(with) = instruction() else { return };
        assert_eq!(
            multiplied(with, whole([2, 0], 1), whole([0, 3], 1), DType::F32),
            [0.0; 6]
        );
        assert_eq!(
            multiplied(with, whole([0, 2], 1), whole([2, 3], 1), DType::F32),
            [0.0; 0]
        );
    }
}
