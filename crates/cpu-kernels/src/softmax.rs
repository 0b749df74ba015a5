//! Softmax on the CPU: rows in parallel, one pass over memory, f32 inside for 16-bit formats.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use num_traits::Zero;
use pulp::{Arch, Simd, WithSimd};

use crate::{
    contiguous::packed,
    parallel_init::written,
    storage::{Stored, chunk_of_rows, contiguous, width},
    vectorized::{self, Wide},
};

pub(crate) fn softmax<T: Stored>(input: FlexTensor) -> FlexTensor {
    let input = packed(input);
    let (from, n) = (input.storage::<T>(), width(&input.shape()));
    let to = written(from.len(), chunk_of_rows(n), |these, to| {
        let from = &from[these];
        Arch::new().dispatch(Rows { from, to, n });
    });
    contiguous(to, input.shape())
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
            vectorized::softmax(simd, T::seen(from, &mut before), T::open(to, &mut after));
            T::settle(&after, to);
        }
    }
}

pub(crate) fn softmax_backward<T: Stored>(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let (output, grad) = (packed(output), packed(grad));
    let n = width(&output.shape());
    let (outputs, grads) = (output.storage::<T>(), grad.storage::<T>());
    let to = written(outputs.len(), chunk_of_rows(n), |these, to| {
        Arch::new().dispatch(RowsBackward {
            outputs: &outputs[these.clone()],
            grads: &grads[these],
            to,
            n,
        });
    });
    contiguous(to, output.shape())
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
            let (output, grad) = (T::seen(outputs, &mut output), T::seen(grads, &mut grad));
            let dot = T::Wide::dot(simd, output, grad);
            for ((g, y), x) in grad.iter().zip(output).zip(T::open(to, &mut after)) {
                *x = *y * (*g - dot);
            }
            T::settle(&after, to);
        }
    }
}
