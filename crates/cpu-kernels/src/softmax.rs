//! Softmax on the CPU: rows in parallel, in one pass over memory, computed in f32 for 16-bit formats.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use num_traits::Zero;
use pulp::{Arch, Simd, WithSimd};

use crate::{
    contiguous::packed,
    parallel_init::init_chunks,
    storage::{Stored, chunk_of_rows, contiguous_tensor, row_width},
    vectorized::{self, Wide},
};

pub(crate) fn softmax<T: Stored>(input: FlexTensor) -> FlexTensor {
    let input = packed(input);
    let (from, n) = (input.storage::<T>(), row_width(&input.shape()));
    let to = init_chunks(from.len(), chunk_of_rows(n), |range, to| {
        let from = &from[range];
        Arch::new().dispatch(Rows { from, to, n });
    });
    contiguous_tensor(to, input.shape())
}

struct Rows<'a, T> {
    from: &'a [T],
    to: &'a mut [T],
    n: usize,
}

impl<T: Stored> WithSimd for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [mut before, mut after] = [(); 2].map(|()| vec![T::Wide::zero(); self.n]);
        let rows = self.from.chunks_exact(self.n);
        for (from, to) in rows.zip(self.to.chunks_exact_mut(self.n)) {
            vectorized::softmax(
                simd,
                T::to_wide(from, &mut before),
                T::wide_output(to, &mut after),
            );
            T::store(&after, to);
        }
    }
}

pub(crate) fn softmax_backward<T: Stored>(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let (output, grad) = (packed(output), packed(grad));
    let n = row_width(&output.shape());
    let (outputs, grads) = (output.storage::<T>(), grad.storage::<T>());
    let to = init_chunks(outputs.len(), chunk_of_rows(n), |range, to| {
        Arch::new().dispatch(RowsBackward {
            outputs: &outputs[range.clone()],
            grads: &grads[range],
            to,
            n,
        });
    });
    contiguous_tensor(to, output.shape())
}

struct RowsBackward<'a, T> {
    outputs: &'a [T],
    grads: &'a [T],
    to: &'a mut [T],
    n: usize,
}

impl<T: Stored> WithSimd for RowsBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.n;
        let [mut output, mut grad, mut after] = [(); 3].map(|()| vec![T::Wide::zero(); n]);
        let rows = self.outputs.chunks_exact(n).zip(self.grads.chunks_exact(n));
        for ((outputs, grads), to) in rows.zip(self.to.chunks_exact_mut(n)) {
            let (output, grad) = (T::to_wide(outputs, &mut output), T::to_wide(grads, &mut grad));
            let dot = T::Wide::dot(simd, output, grad);
            for ((g, y), x) in grad.iter().zip(output).zip(T::wide_output(to, &mut after)) {
                *x = *y * (*g - dot);
            }
            T::store(&after, to);
        }
    }
}
