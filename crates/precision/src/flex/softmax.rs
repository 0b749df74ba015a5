//! Softmax on the CPU: rows in parallel, one pass over memory, f32 inside for half tensors.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use num_traits::{Float, Zero};
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::{
    lanes::{Wide, largest, sum},
    packed::packed,
    stored::{Stored, by_format, chunk_of_rows, contiguous, width},
};

pub(super) fn softmax(input: FlexTensor) -> FlexTensor {
    by_format!(input.dtype(), softmax_in(input))
}

fn softmax_in<T: Stored>(input: FlexTensor) -> FlexTensor {
    let input = packed(input);
    let (from, n) = (input.storage::<T>(), width(&input.shape()));
    let mut to = vec![T::default(); from.len()];
    let chunk = chunk_of_rows(n);
    to.par_chunks_mut(chunk)
        .zip(from.par_chunks(chunk))
        .for_each(|(to, from)| Arch::new().dispatch(Rows { from, to, n }));
    contiguous(to, input.shape())
}

struct Rows<'a, T> {
    from: &'a [T],
    to: &'a mut [T],
    n: usize,
}

impl<T: Stored> NullaryFnOnce for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut row = vec![T::Wide::zero(); self.n];
        for (from, to) in self
            .from
            .chunks_exact(self.n)
            .zip(self.to.chunks_exact_mut(self.n))
        {
            T::widen(from, &mut row);
            let most = largest(&row);
            row.iter_mut().for_each(|x| *x = (*x - most).exponential());
            let inverse = sum(&row, &row, |x, _| x).recip();
            row.iter_mut().for_each(|x| *x = *x * inverse);
            T::narrow(&row, to);
        }
    }
}

pub(super) fn softmax_backward(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    by_format!(output.dtype(), softmax_backward_in(output, grad))
}

fn softmax_backward_in<T: Stored>(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let (output, grad) = (packed(output), packed(grad));
    let n = width(&output.shape());
    let (outputs, grads) = (output.storage::<T>(), grad.storage::<T>());
    let mut to = vec![T::default(); outputs.len()];
    let chunk = chunk_of_rows(n);
    to.par_chunks_mut(chunk)
        .zip(outputs.par_chunks(chunk).zip(grads.par_chunks(chunk)))
        .for_each(|(to, (outputs, grads))| {
            Arch::new().dispatch(RowsBackward {
                outputs,
                grads,
                to,
                n,
            })
        });
    contiguous(to, output.shape())
}

struct RowsBackward<'a, T> {
    outputs: &'a [T],
    grads: &'a [T],
    to: &'a mut [T],
    n: usize,
}

impl<T: Stored> NullaryFnOnce for RowsBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let n = self.n;
        let (mut output, mut grad) = (vec![T::Wide::zero(); n], vec![T::Wide::zero(); n]);
        let rows = self.outputs.chunks_exact(n).zip(self.grads.chunks_exact(n));
        for ((outputs, grads), to) in rows.zip(self.to.chunks_exact_mut(n)) {
            T::widen(outputs, &mut output);
            T::widen(grads, &mut grad);
            let dot = sum(&output, &grad, |y, g| y * g);
            for (g, y) in grad.iter_mut().zip(&output) {
                *g = *y * (*g - dot);
            }
            T::narrow(&grad, to);
        }
    }
}
