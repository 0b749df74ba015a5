//! Matmuls of bf16 matrices with the instruction `vdpbf16ps` of AVX512-BF16, which adds two products to an f32 sum. According to Intel's
//! manual, each addition rounds to nearest even, and subnormal operands and sums are treated as zero. PyTorch uses the same arithmetic on
//! these processors.
//!
//! Columns are first rearranged to the order in which the instruction reads them: in strips of a few columns, with values adjacent in depth
//! next to each other. Rows whose depth is even and contiguous in memory are read in place; other rows are rearranged as well. A few rows
//! times a strip of columns then form a tile of sums that stays in registers.

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
    parallel_init::init_chunks,
    storage::{Stored, contiguous_tensor},
};

pub(crate) use arrange::Matrix;
pub(crate) use columns::Columns;
pub use instruction::Instruction;
pub(crate) use instruction::{Pairs, dots};

/// Multiplies bf16 tensors with batching and broadcasting, shapes `[…, m, k] × […, k, n]`, with sums in f32 or rounded
/// to bf16.
pub fn matmul(instruction: Instruction, lhs: FlexTensor, rhs: FlexTensor, output: DType) -> FlexTensor {
    match output {
        DType::F32 => matmul_in::<f32>(instruction, lhs, rhs),
        DType::BF16 => matmul_in::<bf16>(instruction, lhs, rhs),
        other => unreachable!("bf16 matmul cannot return {other:?}"),
    }
}

fn matmul_in<T: Stored<Wide = f32>>(
    instruction: Instruction,
    lhs: FlexTensor,
    rhs: FlexTensor,
) -> FlexTensor {
    let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).expect("operands have compatible shapes");
    let rank = shape.num_dims();
    let [m, n] = [shape[rank - 2], shape[rank - 1]];
    let is_single_matrix = |tensor: &FlexTensor| {
        tensor.shape().num_elements() == tensor.shape()[rank - 2] * tensor.shape()[rank - 1]
    };
    let (lhs, rhs) = (with_unit_stride(lhs), with_unit_stride(rhs));
    if shape.num_elements() == 0 || lhs.shape()[rank - 1] == 0 {
        return contiguous_tensor(vec![T::default(); shape.num_elements()], shape);
    }
    let out = if is_single_matrix(&rhs) && lhs.is_contiguous() {
        // All rows of a batch are multiplied with the same columns.
        let k = lhs.shape()[rank - 1];
        let rows = Matrix {
            values: &lhs.storage()[lhs.layout().start_offset()..],
            lanes: shape.num_elements() / n,
            depth: k,
            steps: [k, 1],
        };
        Columns::from_tensor(instruction, rhs).multiply(rows)
    } else {
        let [lhs_at, rhs_at] = [&lhs, &rhs].map(|tensor| batch_offsets(tensor, &shape));
        let threads = rayon::current_num_threads().div_ceil(lhs_at.len());
        init_chunks(shape.num_elements(), m * n, |range, out: &mut [T]| {
            let (lhs_at, rhs_at) = (lhs_at[range.start / (m * n)], rhs_at[range.start / (m * n)]);
            let columns = Columns::arrange(instruction, Matrix::from_tensor(&rhs, rhs_at).transposed());
            columns.multiply_on_threads(Matrix::from_tensor(&lhs, lhs_at), out, threads);
        })
    };
    contiguous_tensor(out, shape)
}

/// Returns the tensor if its rows or columns are contiguous in memory and all strides are positive or 0, otherwise a contiguous copy.
fn with_unit_stride(tensor: FlexTensor) -> FlexTensor {
    let strides = tensor.layout().strides();
    let has_unit_stride = strides.iter().rev().take(2).any(|stride| *stride == 1);
    if has_unit_stride && strides.iter().all(|stride| *stride >= 0) {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// Returns the offset of each matrix of a batch that is broadcast to `shape`.
fn batch_offsets(tensor: &FlexTensor, shape: &Shape) -> Vec<usize> {
    let (sizes, strides) = (tensor.shape(), tensor.layout().strides());
    let mut offsets = vec![0];
    for dim in 0..shape.num_dims() - 2 {
        let step = if sizes[dim] == 1 { 0 } else { strides[dim] as usize };
        offsets = offsets
            .iter()
            .flat_map(|offset| (0..shape[dim]).map(move |at| offset + at * step))
            .collect();
    }
    offsets
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};
    use burn_flex::Flex;

    use super::*;

    /// Returns the instruction, or `None` if the processor lacks it. The test is then skipped.
    pub(super) fn instruction() -> Option<Instruction> {
        let detected = Instruction::detect();
        let missing = "this processor has no AVX512-BF16".to_owned();
        mantissa_testing::is_available("avx512bf16", detected.map(|_| ()).ok_or(missing));
        detected
    }

    /// Returns integers from -4 to 4: sums of a few thousand products are exact in f32, in any order.
    fn small_integers<const D: usize>(shape: [usize; D], seed: usize) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values = (0..count)
            .map(|at| (((at * 31 + seed) * 2_654_435_761) >> 7) % 9)
            .map(|x| x as f32 - 4.0);
        Tensor::from_data(
            TensorData::new(values.collect(), shape),
            (&Device::flex(), DType::BF16),
        )
    }

    fn multiply<const D: usize>(
        instruction: Instruction,
        lhs: Tensor<D>,
        rhs: Tensor<D>,
        output: DType,
    ) -> Vec<f32> {
        let [lhs, rhs] = [lhs, rhs].map(|tensor| tensor.try_into_primitive::<Flex>().unwrap());
        let product = matmul(instruction, lhs, rhs, output);
        assert_eq!(product.dtype(), output);
        product.into_data().iter().collect()
    }

    /// Computes a matmul in f64 loops.
    fn matmul_in_f64<const D: usize>(lhs: &Tensor<D>, rhs: &Tensor<D>) -> Vec<f32> {
        let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).unwrap();
        let (m, n, k) = (shape[D - 2], shape[D - 1], lhs.dims()[D - 1]);
        let broadcast = |tensor: &Tensor<D>, rows, columns| {
            let mut dims = shape.clone();
            (dims[D - 2], dims[D - 1]) = (rows, columns);
            tensor
                .clone()
                .expand::<D, _>(dims)
                .into_data()
                .iter::<f64>()
                .collect::<Vec<_>>()
        };
        let (a, b) = (broadcast(lhs, m, k), broadcast(rhs, k, n));
        let value = |at: usize| {
            let (matrix, row, column) = (at / (m * n), at / n % m, at % n);
            (0..k)
                .map(|p| a[(matrix * m + row) * k + p] * b[(matrix * k + p) * n + column])
                .sum::<f64>() as f32
        };
        (0..shape.num_elements()).map(value).collect()
    }

    #[test]
    fn matmul_matches_f64_loops_for_all_shapes_and_layouts() {
        let Some(instruction) = instruction() else { return };
        for (m, k, n) in [
            (1, 1, 1),
            (8, 2, 48),
            (9, 3, 49),
            (7, 33, 47),
            (130, 257, 100),
            (300, 64, 1),
            (16, 1200, 97),
        ] {
            let (a, b) = (small_integers([m, k], 1), small_integers([k, n], 2));
            let (transposed_a, transposed_b) = (
                small_integers([k, m], 3).transpose(),
                small_integers([n, k], 4).transpose(),
            );
            for lhs in [&a, &transposed_a] {
                for rhs in [&b, &transposed_b] {
                    let product = multiply(instruction, lhs.clone(), rhs.clone(), DType::F32);
                    assert_eq!(product, matmul_in_f64(lhs, rhs), "{m} × {k} × {n}");
                }
            }
        }
    }

    #[test]
    fn batches_are_broadcast() {
        let Some(instruction) = instruction() else { return };
        let assert_exact = |lhs: Tensor<4>, rhs: Tensor<4>| {
            assert_eq!(
                multiply(instruction, lhs.clone(), rhs.clone(), DType::F32),
                matmul_in_f64(&lhs, &rhs)
            );
        };
        // Heads of attention: the stride between positions is the width of a token.
        let heads = |seed| small_integers([3, 17, 5, 8], seed).swap_dims(1, 2);
        assert_exact(heads(1), heads(2).transpose());
        assert_exact(heads(1).transpose(), heads(2));
        assert_exact(small_integers([3, 1, 9, 4], 1), small_integers([1, 5, 4, 50], 2));
        assert_exact(small_integers([3, 5, 9, 4], 1), small_integers([1, 1, 4, 50], 2));
        assert_exact(heads(1), small_integers([1, 1, 8, 20], 2));
        assert_exact(small_integers([1, 1, 9, 17], 1), heads(2));
        // Windows and every second row or column of a larger tensor, and their transposes.
        let large = small_integers([2, 2, 30, 40], 5);
        assert_exact(
            large.clone().narrow(2, 3, 11).narrow(3, 5, 16),
            heads(2).narrow(0, 0, 2).narrow(1, 1, 2).narrow(2, 0, 16),
        );
        let steps = large.slice(burn::tensor::s![.., .., 0..30;2, 0..32;2]);
        assert_exact(steps.clone(), small_integers([2, 2, 16, 3], 1));
        assert_exact(steps.flip([2, 3]), small_integers([2, 2, 16, 3], 1));
    }

    #[test]
    fn bf16_output_is_rounded_once() {
        let Some(instruction) = instruction() else { return };
        let (a, b) = (small_integers([20, 999], 1), small_integers([999, 70], 2));
        let rounded: Vec<f32> = matmul_in_f64(&a, &b)
            .into_iter()
            .map(bf16::from_f32)
            .map(f32::from)
            .collect();
        assert_eq!(multiply(instruction, a, b, DType::BF16), rounded);
    }

    #[test]
    fn non_finite_values_stay_in_their_row_and_subnormals_are_zero() {
        let Some(instruction) = instruction() else { return };
        let bf16_tensor = |values: Vec<f32>, shape| {
            Tensor::<2>::from_data(TensorData::new(values, shape), (&Device::flex(), DType::BF16))
        };
        let rows = bf16_tensor(
            vec![1.0, 2.0, 3.0, f32::INFINITY, 1.0, 1.0, 1.0, f32::NAN, 1.0],
            [3, 3],
        );
        let product = multiply(
            instruction,
            rows,
            bf16_tensor(vec![1.0, 0.5, 0.0], [3, 1]),
            DType::F32,
        );
        assert_eq!(product[..2], [2.0, f32::INFINITY]);
        assert!(product[2].is_nan());
        let smallest = f32::MIN_POSITIVE;
        let product = multiply(
            instruction,
            bf16_tensor(vec![smallest, smallest / 2.0], [2, 1]),
            bf16_tensor(vec![1.0, 4.0], [1, 2]),
            DType::F32,
        );
        assert_eq!(product, [smallest, 4.0 * smallest, 0.0, 0.0]);
    }

    #[test]
    fn an_empty_sum_is_zero() {
        let Some(instruction) = instruction() else { return };
        assert_eq!(
            multiply(
                instruction,
                small_integers([2, 0], 1),
                small_integers([0, 3], 1),
                DType::F32
            ),
            [0.0; 6]
        );
        assert_eq!(
            multiply(
                instruction,
                small_integers([0, 2], 1),
                small_integers([2, 3], 1),
                DType::F32
            ),
            [0.0; 0]
        );
    }
}
