//! Layer norm and RMS norm on the CPU: rows in parallel, f32 inside for half tensors.

use burn::tensor::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;
use num_traits::{Float, Zero};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{
    convert::round_to,
    lanes::Wide,
    packed::packed,
    stored::{Stored, by_format, chunk_of_rows, contiguous, width},
};
use crate::{Normalized, backend::LayerNormGradients};

/// Layer norm where there is a `shift`, else RMS norm, whose mean is 0.
pub(super) fn normalize(
    input: FlexTensor,
    scale: FlexTensor,
    shift: Option<FlexTensor>,
    epsilon: f64,
) -> Normalized<FlexTensor> {
    by_format!(input.dtype(), normalize_in(input, scale, shift, epsilon))
}

/// Contiguous, in what values of a format are computed in.
fn wide<T: Stored>(tensor: FlexTensor) -> FlexTensor {
    round_to(tensor, <T::Wide as burn::tensor::Element>::dtype()).to_contiguous()
}

fn normalize_in<T: Stored<Wide: Stored>>(
    input: FlexTensor,
    scale: FlexTensor,
    shift: Option<FlexTensor>,
    epsilon: f64,
) -> Normalized<FlexTensor> {
    let input = packed(input);
    let (from, n) = (input.storage::<T>(), width(&input.shape()));
    let (scale, shift) = (wide::<T>(scale), shift.map(wide::<T>));
    let mut to = vec![T::default(); from.len()];
    let rows = from.len() / n;
    let [mut means, mut inverses] = [(); 2].map(|()| vec![T::Wide::zero(); rows]);
    let chunk = chunk_of_rows(n);
    to.par_chunks_mut(chunk)
        .zip(from.par_chunks(chunk))
        .zip(means.par_chunks_mut(chunk / n))
        .zip(inverses.par_chunks_mut(chunk / n))
        .for_each(|(((to, from), means), inverses)| {
            Arch::new().dispatch(Rows::<T> {
                from,
                scale: scale.storage(),
                shift: shift.as_ref().map(FlexTensor::storage),
                epsilon: T::Wide::of(epsilon),
                to,
                means,
                inverses,
            })
        });
    let mut reduced = input.shape();
    let last = reduced.num_dims() - 1;
    reduced[last] = 1;
    Normalized {
        output: contiguous(to, input.shape()),
        mean: contiguous(means, reduced.clone()),
        inverse_deviation: contiguous(inverses, reduced),
    }
}

struct Rows<'a, T: Stored> {
    from: &'a [T],
    scale: &'a [T::Wide],
    shift: Option<&'a [T::Wide]>,
    epsilon: T::Wide,
    to: &'a mut [T],
    means: &'a mut [T::Wide],
    inverses: &'a mut [T::Wide],
}

impl<T: Stored> WithSimd for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.scale.len();
        let count = T::Wide::of(n as f64);
        let [mut before, mut after] = [(); 2].map(|()| vec![T::Wide::zero(); n]);
        let rows = self.from.chunks_exact(n).zip(self.to.chunks_exact_mut(n));
        for (((from, to), kept_mean), kept_inverse) in rows.zip(self.means).zip(self.inverses) {
            let row = T::seen(from, &mut before);
            let mean = match self.shift {
                Some(_) => T::Wide::total(simd, row) / count,
                None => T::Wide::zero(),
            };
            let normal = T::open(to, &mut after);
            for (x, y) in row.iter().zip(&mut *normal) {
                *y = *x - mean;
            }
            let variance = T::Wide::dot(simd, normal, normal) / count;
            let inverse = (variance + self.epsilon).sqrt().recip();
            for (y, scale) in normal.iter_mut().zip(self.scale) {
                *y = *y * inverse * *scale;
            }
            for (y, shift) in normal.iter_mut().zip(self.shift.unwrap_or_default()) {
                *y = *y + *shift;
            }
            T::settle(&after, to);
            (*kept_mean, *kept_inverse) = (mean, inverse);
        }
    }
}

/// Gradients of the input, the scale and the shift, of layer norm where there is a `mean`, else of RMS norm.
pub(super) fn normalize_backward(
    input: FlexTensor,
    scale: FlexTensor,
    mean: Option<FlexTensor>,
    inverse: FlexTensor,
    grad: FlexTensor,
) -> LayerNormGradients<FlexTensor> {
    by_format!(
        input.dtype(),
        normalize_backward_in(input, scale, mean, inverse, grad)
    )
}

fn normalize_backward_in<T: Stored<Wide: Stored>>(
    input: FlexTensor,
    scale: FlexTensor,
    mean: Option<FlexTensor>,
    inverse: FlexTensor,
    grad: FlexTensor,
) -> LayerNormGradients<FlexTensor> {
    let (input, grad) = (packed(input), packed(grad));
    let (inputs, grads, n) = (input.storage::<T>(), grad.storage::<T>(), width(&input.shape()));
    let (scale_format, scale) = (scale.dtype(), wide::<T>(scale));
    let mut to = vec![T::default(); inputs.len()];
    let chunk = chunk_of_rows(n);

    // The sums over rows are added chunk by chunk in order, so that the result does not depend on the threads.
    let sums: Vec<[Vec<T::Wide>; 2]> = to
        .par_chunks_mut(chunk)
        .zip(inputs.par_chunks(chunk).zip(grads.par_chunks(chunk)))
        .enumerate()
        .map(|(index, (to, (inputs, grads)))| {
            let first = index * chunk / n;
            Arch::new().dispatch(RowsBackward::<T> {
                inputs,
                grads,
                scale: scale.storage(),
                means: mean.as_ref().map(|means| &means.storage()[first..]),
                inverses: &inverse.storage()[first..],
                to,
            })
        })
        .collect();
    let mut totals = [(); 2].map(|()| vec![T::Wide::zero(); n]);
    for parts in sums {
        for (totals, parts) in totals.iter_mut().zip(parts) {
            for (total, part) in totals.iter_mut().zip(parts) {
                *total = *total + part;
            }
        }
    }
    let row = |values: Vec<T::Wide>, dtype: DType| round_to(contiguous(values, Shape::new([n])), dtype);
    let [of_scale, of_shift] = totals.map(|total| row(total, scale_format));
    (contiguous(to, input.shape()), of_scale, of_shift)
}

struct RowsBackward<'a, T: Stored> {
    inputs: &'a [T],
    grads: &'a [T],
    scale: &'a [T::Wide],
    means: Option<&'a [T::Wide]>,
    inverses: &'a [T::Wide],
    to: &'a mut [T],
}

impl<T: Stored> WithSimd for RowsBackward<'_, T> {
    /// Gradients of the scale and of the shift.
    type Output = [Vec<T::Wide>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let n = self.scale.len();
        let count = T::Wide::of(n as f64);
        let new = || vec![T::Wide::zero(); n];
        let (mut of_scale, mut of_shift) = (new(), new());
        let (mut input, mut of_output, mut normal, mut grad, mut after) = (new(), new(), new(), new(), new());
        let rows = self.inputs.chunks_exact(n).zip(self.grads.chunks_exact(n));
        for (index, ((inputs, grads), to)) in rows.zip(self.to.chunks_exact_mut(n)).enumerate() {
            let inverse = self.inverses[index];
            let mean = self.means.map_or(T::Wide::zero(), |means| means[index]);
            let inputs = &T::seen(inputs, &mut input)[..n];
            let grads = &T::seen(grads, &mut of_output)[..n];
            for j in 0..n {
                normal[j] = (inputs[j] - mean) * inverse;
                of_scale[j] = of_scale[j] + grads[j] * normal[j];
                of_shift[j] = of_shift[j] + grads[j];
                grad[j] = grads[j] * self.scale[j];
            }
            let level = match self.means {
                Some(_) => T::Wide::total(simd, &grad) / count,
                None => T::Wide::zero(),
            };
            let dot = T::Wide::dot(simd, &grad, &normal) / count;
            for ((g, x), y) in grad.iter().zip(&normal).zip(T::open(to, &mut after)) {
                *y = (*g - level - *x * dot) * inverse;
            }
            T::settle(&after, to);
        }
        [of_scale, of_shift]
    }
}
