//! Layer norm and RMS norm on the CPU: rows in parallel, computed in f32 for 16-bit formats.

use burn::{
    backend::TensorMetadata,
    tensor::{DType, Shape},
};
use burn_flex::FlexTensor;
use num_traits::{Float, Zero};
use pulp::{Arch, Simd, WithSimd};

use crate::{
    contiguous::packed,
    convert::round_to,
    parallel_init::init_chunks_with,
    storage::{Stored, chunk_of_rows, contiguous_tensor, row_width},
    vectorized::Wide,
};

/// Returns the tensor in the wide format, contiguous.
fn to_contiguous_wide<T: Stored>(tensor: FlexTensor) -> FlexTensor {
    round_to(tensor, <T::Wide as burn::tensor::Element>::dtype()).to_contiguous()
}

/// Computes layer norm if there is a `shift`, otherwise RMS norm, for which the returned means are 0.
pub(crate) fn normalize<T: Stored<Wide: Stored>>(
    input: FlexTensor,
    scale: FlexTensor,
    shift: Option<FlexTensor>,
    epsilon: f64,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let input = packed(input);
    let (from, n) = (input.storage::<T>(), row_width(&input.shape()));
    let (scale, shift) = (to_contiguous_wide::<T>(scale), shift.map(to_contiguous_wide::<T>));
    let (to, statistics) = init_chunks_with(from.len(), chunk_of_rows(n), |range, to| {
        Arch::new().dispatch(Rows::<T> {
            from: &from[range],
            scale: scale.storage(),
            shift: shift.as_ref().map(FlexTensor::storage),
            epsilon: T::Wide::round_from_f64(epsilon),
            to,
        })
    });
    let (means, inverses) = statistics.into_iter().flatten().unzip();
    let mut reduced = input.shape();
    let last = reduced.num_dims() - 1;
    reduced[last] = 1;
    let output = contiguous_tensor(to, input.shape());
    let mean = contiguous_tensor(means, reduced.clone());
    (output, mean, contiguous_tensor(inverses, reduced))
}

struct Rows<'a, T: Stored> {
    from: &'a [T],
    scale: &'a [T::Wide],
    shift: Option<&'a [T::Wide]>,
    epsilon: T::Wide,
    to: &'a mut [T],
}

impl<T: Stored> WithSimd for Rows<'_, T> {
    /// Mean and inverse deviation of each row.
    type Output = Vec<(T::Wide, T::Wide)>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let n = self.scale.len();
        let count = T::Wide::round_from_f64(n as f64);
        let [mut before, mut after] = [(); 2].map(|()| vec![T::Wide::zero(); n]);
        let mut statistics = Vec::with_capacity(self.from.len() / n);
        for (from, to) in self.from.chunks_exact(n).zip(self.to.chunks_exact_mut(n)) {
            let row = T::to_wide(from, &mut before);
            let mean = match self.shift {
                Some(_) => T::Wide::row_sum(simd, row) / count,
                None => T::Wide::zero(),
            };
            let variance = T::Wide::squared_differences(simd, row, mean) / count;
            let inverse = (variance + self.epsilon).sqrt().recip();
            let normal = |x: &T::Wide, scale: &T::Wide| (*x - mean) * inverse * *scale;
            let values = row.iter().zip(self.scale).zip(T::wide_output(to, &mut after));
            if let Some(shift) = self.shift {
                for (((x, scale), y), shift) in values.zip(shift) {
                    *y = normal(x, scale) + *shift;
                }
            } else {
                for ((x, scale), y) in values {
                    *y = normal(x, scale);
                }
            }
            T::store(&after, to);
            statistics.push((mean, inverse));
        }
        statistics
    }
}

/// Computes the gradients of the input, the scale and the shift: of layer norm if there is a `mean`, otherwise of RMS norm.
pub(crate) fn normalize_backward<T: Stored<Wide: Stored>>(
    input: FlexTensor,
    scale: FlexTensor,
    mean: Option<FlexTensor>,
    inverse: FlexTensor,
    grad: FlexTensor,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let (input, grad) = (packed(input), packed(grad));
    let (inputs, grads, n) = (
        input.storage::<T>(),
        grad.storage::<T>(),
        row_width(&input.shape()),
    );
    let (scale_format, scale) = (scale.dtype(), to_contiguous_wide::<T>(scale));
    let (to, sums) = init_chunks_with(inputs.len(), chunk_of_rows(n), |range, to| {
        let first = range.start / n;
        Arch::new().dispatch(RowsBackward::<T> {
            inputs: &inputs[range.clone()],
            grads: &grads[range],
            scale: scale.storage(),
            means: mean.as_ref().map(|means| &means.storage()[first..]),
            inverses: &inverse.storage()[first..],
            to,
        })
    });
    // Chunks are added in order, which makes the result independent of the number of threads.
    let mut totals = [(); 2].map(|()| vec![T::Wide::zero(); n]);
    for parts in sums {
        for (totals, parts) in totals.iter_mut().zip(parts) {
            for (total, part) in totals.iter_mut().zip(parts) {
                *total = *total + part;
            }
        }
    }
    let row =
        |values: Vec<T::Wide>, dtype: DType| round_to(contiguous_tensor(values, Shape::new([n])), dtype);
    let [scale_grad, shift_grad] = totals.map(|total| row(total, scale_format));
    (contiguous_tensor(to, input.shape()), scale_grad, shift_grad)
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
        let count = T::Wide::round_from_f64(n as f64);
        let new = || vec![T::Wide::zero(); n];
        let (mut scale_grad, mut shift_grad) = (new(), new());
        let (mut input, mut output_grad, mut normal, mut grad, mut after) =
            (new(), new(), new(), new(), new());
        let rows = self.inputs.chunks_exact(n).zip(self.grads.chunks_exact(n));
        for (index, ((inputs, grads), to)) in rows.zip(self.to.chunks_exact_mut(n)).enumerate() {
            let inverse = self.inverses[index];
            let mean = self.means.map_or(T::Wide::zero(), |means| means[index]);
            let inputs = &T::to_wide(inputs, &mut input)[..n];
            let grads = &T::to_wide(grads, &mut output_grad)[..n];
            for j in 0..n {
                normal[j] = (inputs[j] - mean) * inverse;
                scale_grad[j] = scale_grad[j] + grads[j] * normal[j];
                shift_grad[j] = shift_grad[j] + grads[j];
                grad[j] = grads[j] * self.scale[j];
            }
            let mean_grad = match self.means {
                Some(_) => T::Wide::row_sum(simd, &grad) / count,
                None => T::Wide::zero(),
            };
            let dot = T::Wide::dot(simd, &grad, &normal) / count;
            for ((g, x), y) in grad.iter().zip(&normal).zip(T::wide_output(to, &mut after)) {
                *y = (*g - mean_grad - *x * dot) * inverse;
            }
            T::store(&after, to);
        }
        [scale_grad, shift_grad]
    }
}
