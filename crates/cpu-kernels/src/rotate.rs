//! Rotary embeddings on the CPU: rows in parallel, in one pass over memory, computed in f32 for 16-bit formats.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use num_traits::Zero;
use pulp::{Arch, NullaryFnOnce};

use crate::{
    contiguous::packed,
    parallel_init::init_chunks,
    storage::{Stored, chunk_of_rows, contiguous_tensor, row_width},
};

/// Implements `PrecisionBackend::rotate` of `mantissa-precision`.
pub(crate) fn rotate<T: Stored>(
    input: FlexTensor,
    cosine: FlexTensor,
    sine: FlexTensor,
    interleaved: bool,
) -> FlexTensor {
    let [input, cosine, sine] = [input, cosine, sine].map(packed);
    let (from, n) = (input.storage::<T>(), row_width(&input.shape()));
    if from.is_empty() {
        return input;
    }
    let to = init_chunks(from.len(), chunk_of_rows(n), |range, to| {
        Arch::new().dispatch(Rows {
            first: range.start / n,
            from: &from[range],
            to,
            n,
            cosine: cosine.storage(),
            sine: sine.storage(),
            interleaved,
        });
    });
    contiguous_tensor(to, input.shape())
}

/// Rows of width `n`, starting at row `first` of the tensor.
struct Rows<'a, T: Stored> {
    from: &'a [T],
    to: &'a mut [T],
    n: usize,
    first: usize,
    cosine: &'a [T::Wide],
    sine: &'a [T::Wide],
    interleaved: bool,
}

impl<T: Stored> NullaryFnOnce for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (n, half) = (self.n, self.n / 2);
        let positions = self.cosine.len() / half;
        let mut row = vec![T::Wide::zero(); n];
        let rows = self.from.chunks_exact(n).zip(self.to.chunks_exact_mut(n));
        for (at, (from, to)) in rows.enumerate() {
            let angles = (self.first + at) % positions * half;
            let (cosine, sine) = (&self.cosine[angles..][..half], &self.sine[angles..][..half]);
            T::widen(from, &mut row);
            let angles = cosine.iter().zip(sine);
            if self.interleaved {
                let (pairs, _) = row.as_chunks_mut::<2>();
                for ([x, y], (cosine, sine)) in pairs.iter_mut().zip(angles) {
                    (*x, *y) = (*x * *cosine - *y * *sine, *y * *cosine + *x * *sine);
                }
            } else {
                let (xs, ys) = row.split_at_mut(half);
                for ((x, y), (cosine, sine)) in xs.iter_mut().zip(ys).zip(angles) {
                    (*x, *y) = (*x * *cosine - *y * *sine, *y * *cosine + *x * *sine);
                }
            }
            T::narrow(&row, to);
        }
    }
}
