//! Softmax, GELU and layer norm on the CPU: one pass over each row, rows in parallel, f32 inside for half tensors.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn::tensor::{DType, Shape, TensorMetadata, ops::FloatTensor};
use burn_flex::{Flex, FlexTensor, Layout};
use num_traits::Float;
use rayon::prelude::*;

use super::convert::{CHUNK, round_to};
use crate::{Normalized, backend::LayerNormGradients};

/// What the rows are computed in: f32, or f64 for f64 tensors.
trait Wide:
    Float + burn::tensor::Element + bytemuck::Pod + Send + Sync + std::iter::Sum + std::ops::AddAssign
{
    fn of(x: f64) -> Self;
    fn erf(self) -> Self;
}

impl Wide for f32 {
    fn of(x: f64) -> Self {
        x as f32
    }
    fn erf(self) -> Self {
        libm::erff(self)
    }
}

impl Wide for f64 {
    fn of(x: f64) -> Self {
        x
    }
    fn erf(self) -> Self {
        libm::erf(self)
    }
}

/// Calls a function for the wide type of a dtype.
macro_rules! by_dtype {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F64 => $function::<f64>($($argument),*),
            _ => $function::<f32>($($argument),*),
        }
    };
}

/// Contiguous, f32 if half.
fn wide(tensor: FlexTensor) -> FlexTensor {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => round_to(tensor, DType::F32).to_contiguous(),
        _ => tensor.to_contiguous(),
    }
}

fn tensor<T: Wide>(values: Vec<T>, shape: Shape) -> FlexTensor {
    FlexTensor::new(
        burn::tensor::Bytes::from_elems(values),
        Layout::contiguous(shape),
        T::dtype(),
    )
}

fn last(shape: &Shape) -> usize {
    shape[shape.num_dims() - 1]
}

/// Whole rows that make up about one chunk.
fn chunk_of_rows(n: usize) -> usize {
    (CHUNK / n).max(1) * n
}

pub(super) fn softmax(input: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let dtype = input.dtype();
    round_to(by_dtype!(dtype, softmax_wide(wide(input))), dtype)
}

fn softmax_wide<T: Wide>(input: FlexTensor) -> FlexTensor {
    let shape = input.shape();
    let n = last(&shape);
    let mut values = input.storage::<T>().to_vec();
    values.par_chunks_mut(chunk_of_rows(n)).for_each(|rows| {
        for row in rows.chunks_exact_mut(n) {
            let max = row.iter().copied().fold(T::neg_infinity(), T::max);
            let mut sum = T::zero();
            for x in row.iter_mut() {
                *x = (*x - max).exp();
                sum += *x;
            }
            let inverse = sum.recip();
            row.iter_mut().for_each(|x| *x = *x * inverse);
        }
    });
    tensor(values, shape)
}

pub(super) fn softmax_backward(output: FloatTensor<Flex>, grad: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let dtype = output.dtype();
    round_to(
        by_dtype!(dtype, softmax_backward_wide(wide(output), wide(grad))),
        dtype,
    )
}

fn softmax_backward_wide<T: Wide>(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let shape = output.shape();
    let n = last(&shape);
    let mut values = grad.storage::<T>().to_vec();
    let chunk = chunk_of_rows(n);
    values
        .par_chunks_mut(chunk)
        .zip(output.storage::<T>().par_chunks(chunk))
        .for_each(|(grads, outputs)| {
            for (grad, output) in grads.chunks_exact_mut(n).zip(outputs.chunks_exact(n)) {
                let dot: T = grad.iter().zip(output).map(|(g, y)| *g * *y).sum();
                grad.iter_mut()
                    .zip(output)
                    .for_each(|(g, y)| *g = *y * (*g - dot));
            }
        });
    tensor(values, shape)
}

pub(super) fn gelu(input: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let dtype = input.dtype();
    round_to(by_dtype!(dtype, gelu_wide(wide(input))), dtype)
}

fn gelu_wide<T: Wide>(input: FlexTensor) -> FlexTensor {
    let mut values = input.storage::<T>().to_vec();
    values.par_chunks_mut(CHUNK).for_each(|chunk| {
        chunk.iter_mut().for_each(|x| *x = *x * normal_distribution(*x));
    });
    tensor(values, input.shape())
}

/// `Φ(x)`.
fn normal_distribution<T: Wide>(x: T) -> T {
    T::of(0.5) * (T::one() + (x * T::of(FRAC_1_SQRT_2)).erf())
}

pub(super) fn gelu_backward(input: FloatTensor<Flex>, grad: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let dtype = input.dtype();
    round_to(
        by_dtype!(dtype, gelu_backward_wide(wide(input), wide(grad))),
        dtype,
    )
}

fn gelu_backward_wide<T: Wide>(input: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let density_of_zero = T::of(1.0 / (2.0 * PI).sqrt());
    let mut values = grad.storage::<T>().to_vec();
    values
        .par_chunks_mut(CHUNK)
        .zip(input.storage::<T>().par_chunks(CHUNK))
        .for_each(|(grads, inputs)| {
            for (g, &x) in grads.iter_mut().zip(inputs) {
                let density = density_of_zero * (T::of(-0.5) * x * x).exp();
                *g = *g * (normal_distribution(x) + x * density);
            }
        });
    tensor(values, input.shape())
}

pub(super) fn layer_norm(
    input: FloatTensor<Flex>,
    scale: FloatTensor<Flex>,
    shift: FloatTensor<Flex>,
    epsilon: f64,
) -> Normalized<FloatTensor<Flex>> {
    let dtype = input.dtype();
    let made = by_dtype!(
        dtype,
        layer_norm_wide(wide(input), wide(scale), wide(shift), epsilon)
    );
    Normalized {
        output: round_to(made.output, dtype),
        ..made
    }
}

fn layer_norm_wide<T: Wide>(
    input: FlexTensor,
    scale: FlexTensor,
    shift: FlexTensor,
    epsilon: f64,
) -> Normalized<FlexTensor> {
    let shape = input.shape();
    let n = last(&shape);
    let (scale, shift) = (scale.storage::<T>(), shift.storage::<T>());
    let count = T::of(n as f64);
    let mut output = input.storage::<T>().to_vec();
    let rows = output.len() / n;
    let (mut means, mut inverses) = (vec![T::zero(); rows], vec![T::zero(); rows]);
    let chunk = chunk_of_rows(n);
    output
        .par_chunks_mut(chunk)
        .zip(means.par_chunks_mut(chunk / n))
        .zip(inverses.par_chunks_mut(chunk / n))
        .for_each(|((rows, means), inverses)| {
            for ((row, mean), inverse) in rows.chunks_exact_mut(n).zip(means).zip(inverses) {
                *mean = row.iter().copied().sum::<T>() / count;
                let variance = row.iter().map(|x| (*x - *mean) * (*x - *mean)).sum::<T>() / count;
                *inverse = (variance + T::of(epsilon)).sqrt().recip();
                for (x, (g, b)) in row.iter_mut().zip(scale.iter().zip(shift)) {
                    *x = (*x - *mean) * *inverse * *g + *b;
                }
            }
        });
    let mut reduced = shape.clone();
    let rank = reduced.num_dims();
    reduced[rank - 1] = 1;
    Normalized {
        output: tensor(output, shape),
        mean: tensor(means, reduced.clone()),
        inverse_deviation: tensor(inverses, reduced),
    }
}

pub(super) fn layer_norm_backward(
    input: FloatTensor<Flex>,
    scale: FloatTensor<Flex>,
    mean: FloatTensor<Flex>,
    inverse: FloatTensor<Flex>,
    grad: FloatTensor<Flex>,
) -> LayerNormGradients<FloatTensor<Flex>> {
    let (dtype, scale_dtype) = (input.dtype(), scale.dtype());
    let (input_grad, scale_grad, shift_grad) = by_dtype!(
        dtype,
        layer_norm_backward_wide(wide(input), wide(scale), mean, inverse, wide(grad))
    );
    (
        round_to(input_grad, dtype),
        round_to(scale_grad, scale_dtype),
        round_to(shift_grad, scale_dtype),
    )
}

fn layer_norm_backward_wide<T: Wide>(
    input: FlexTensor,
    scale: FlexTensor,
    mean: FlexTensor,
    inverse: FlexTensor,
    grad: FlexTensor,
) -> LayerNormGradients<FlexTensor> {
    let shape = input.shape();
    let n = last(&shape);
    let count = T::of(n as f64);
    let (input, scale) = (input.storage::<T>(), scale.storage::<T>());
    let (means, inverses) = (mean.storage::<T>(), inverse.storage::<T>());
    let mut grads = grad.storage::<T>().to_vec();
    let chunk = chunk_of_rows(n);

    // The sums over rows are added chunk by chunk in order, so that the result does not depend on the threads.
    let sums: Vec<(Vec<T>, Vec<T>)> = grads
        .par_chunks_mut(chunk)
        .enumerate()
        .map(|(index, grads)| {
            let first = index * chunk / n;
            let (mut scale_sum, mut shift_sum) = (vec![T::zero(); n], vec![T::zero(); n]);
            for (row, grad) in grads.chunks_exact_mut(n).enumerate() {
                let row = first + row;
                let (mean, inverse) = (means[row], inverses[row]);
                let input = &input[row * n..(row + 1) * n];
                let (mut sum, mut dot) = (T::zero(), T::zero());
                for j in 0..n {
                    let normal = (input[j] - mean) * inverse;
                    scale_sum[j] += grad[j] * normal;
                    shift_sum[j] += grad[j];
                    grad[j] = grad[j] * scale[j];
                    sum += grad[j];
                    dot += grad[j] * normal;
                }
                let (sum, dot) = (sum / count, dot / count);
                for (g, x) in grad.iter_mut().zip(input) {
                    *g = (*g - sum - (*x - mean) * inverse * dot) * inverse;
                }
            }
            (scale_sum, shift_sum)
        })
        .collect();

    let (mut scale_grad, mut shift_grad) = (vec![T::zero(); n], vec![T::zero(); n]);
    for (scale_sum, shift_sum) in sums {
        scale_grad
            .iter_mut()
            .zip(scale_sum)
            .for_each(|(total, part)| *total += part);
        shift_grad
            .iter_mut()
            .zip(shift_sum)
            .for_each(|(total, part)| *total += part);
    }
    let row = Shape::new([n]);
    (
        tensor(grads, shape),
        tensor(scale_grad, row.clone()),
        tensor(shift_grad, row),
    )
}
