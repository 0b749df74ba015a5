//! Elementwise functions of one or two tensors, which are widened, computed and rounded in one pass over memory.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use num_traits::Zero;
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::{
    contiguous::{packed, trimmed},
    parallel_init::init_chunks,
    storage::{BLOCK, CHUNK, Stored, contiguous_tensor, tensor_with_layout, to_wide_mut},
};

/// Applies a function to every value, in place if the buffer is not shared. Keeps the layout: a transposed view remains transposed.
pub(crate) fn map<T: Stored>(input: FlexTensor, f: impl Fn(T::Wide) -> T::Wide + Copy + Sync) -> FlexTensor {
    let mut input = trimmed(input);
    if input.is_unique() {
        let values = input.storage_mut::<T>().par_chunks_mut(CHUNK);
        values.for_each(|values| Arch::new().dispatch(MapInPlace { values, f }));
        return input;
    }
    let from = input.storage::<T>();
    let to = init_chunks(from.len(), CHUNK, |range, to| {
        let from = &from[range];
        Arch::new().dispatch(Map { from, to, f });
    });
    tensor_with_layout(to, input.layout().clone())
}

struct Map<'a, T, F> {
    from: &'a [T],
    to: &'a mut [T],
    f: F,
}

impl<T: Stored, F: Fn(T::Wide) -> T::Wide> NullaryFnOnce for Map<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [mut before, mut after] = [[T::Wide::zero(); BLOCK]; 2];
        for (from, to) in self.from.chunks(BLOCK).zip(self.to.chunks_mut(BLOCK)) {
            let xs = T::to_wide(from, &mut before);
            for (x, y) in xs.iter().zip(T::wide_output(to, &mut after)) {
                *y = (self.f)(*x);
            }
            T::store(&after, to);
        }
    }
}

struct MapInPlace<'a, T, F> {
    values: &'a mut [T],
    f: F,
}

impl<T: Stored, F: Fn(T::Wide) -> T::Wide> NullaryFnOnce for MapInPlace<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut buffer = [T::Wide::zero(); BLOCK];
        for values in self.values.chunks_mut(BLOCK) {
            for x in to_wide_mut(values, &mut buffer) {
                *x = (self.f)(*x);
            }
            T::store(&buffer, values);
        }
    }
}

/// Applies a function to every pair of values of two tensors of the same shape, in place of the left one if its buffer is not
/// shared.
pub(crate) fn zip<T: Stored>(
    left: FlexTensor,
    right: FlexTensor,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy + Sync,
) -> FlexTensor {
    let (mut left, right) = (packed(left), packed(right));
    let ys = right.storage::<T>();
    if left.is_unique() && left.storage::<T>().len() == ys.len() {
        left.storage_mut::<T>()
            .par_chunks_mut(CHUNK)
            .zip(ys.par_chunks(CHUNK))
            .for_each(|(xs, ys)| Arch::new().dispatch(ZipInPlace { xs, ys, f }));
        return left;
    }
    let xs = left.storage::<T>();
    let to = init_chunks(xs.len(), CHUNK, |range, to| {
        let (xs, ys) = (&xs[range.clone()], &ys[range]);
        Arch::new().dispatch(Zip { xs, ys, to, f });
    });
    contiguous_tensor(to, left.shape())
}

struct Zip<'a, T, F> {
    xs: &'a [T],
    ys: &'a [T],
    to: &'a mut [T],
    f: F,
}

impl<T: Stored, F: Fn(T::Wide, T::Wide) -> T::Wide> NullaryFnOnce for Zip<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [mut left, mut right, mut after] = [[T::Wide::zero(); BLOCK]; 3];
        let pairs = self.xs.chunks(BLOCK).zip(self.ys.chunks(BLOCK));
        for ((xs, ys), to) in pairs.zip(self.to.chunks_mut(BLOCK)) {
            let (xs, ys) = (T::to_wide(xs, &mut left), T::to_wide(ys, &mut right));
            for ((x, y), z) in xs.iter().zip(ys).zip(T::wide_output(to, &mut after)) {
                *z = (self.f)(*x, *y);
            }
            T::store(&after, to);
        }
    }
}

struct ZipInPlace<'a, T, F> {
    xs: &'a mut [T],
    ys: &'a [T],
    f: F,
}

impl<T: Stored, F: Fn(T::Wide, T::Wide) -> T::Wide> NullaryFnOnce for ZipInPlace<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [mut left, mut right] = [[T::Wide::zero(); BLOCK]; 2];
        for (xs, ys) in self.xs.chunks_mut(BLOCK).zip(self.ys.chunks(BLOCK)) {
            let ys = T::to_wide(ys, &mut right);
            for (x, y) in to_wide_mut(xs, &mut left).iter_mut().zip(ys) {
                *x = (self.f)(*x, *y);
            }
            T::store(&left, xs);
        }
    }
}
