//! Storage formats of tensors, and loops over tensors that widen, compute and round in one pass over memory.

use burn::{
    backend::TensorMetadata,
    tensor::{Bytes, Shape},
};
use burn_flex::{FlexTensor, Layout};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use num_traits::Zero;
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::{
    contiguous::packed,
    convert::{CHUNK, narrow_bf16, round_bf16, round_f16, trimmed},
    parallel_init::written,
    vectorized::Wide,
};

/// Storage format of tensors.
pub(crate) trait Stored: burn::tensor::Element + bytemuck::Pod + Send + Sync + Default {
    /// Format of intermediate results.
    type Wide: Wide;
    /// Converts values to the wide format.
    fn widen(from: &[Self], to: &mut [Self::Wide]);
    /// Rounds values to nearest even.
    fn narrow(from: &[Self::Wide], to: &mut [Self]);
    /// Returns values in the wide format: `values` itself, or widened into `place`. Copying values that are already wide
    /// would take as long as the arithmetic.
    fn seen<'a>(values: &'a [Self], place: &'a mut [Self::Wide]) -> &'a [Self::Wide];
    /// Returns the slice for results in the wide format until they are [settled](Self::settle): `to` itself, or
    /// `place`.
    fn open<'a>(to: &'a mut [Self], place: &'a mut [Self::Wide]) -> &'a mut [Self::Wide];
    /// Narrows results from `place`, if [`open`](Self::open) returned it.
    fn settle(place: &[Self::Wide], to: &mut [Self]);
    /// Rounds a value as if it were stored and loaded.
    fn round(x: Self::Wide) -> Self::Wide;
}

macro_rules! stored_as_it_is {
    ($($format:ty),+) => { $(
        impl Stored for $format {
            type Wide = Self;
            #[inline(always)]
            fn widen(from: &[Self], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
            #[inline(always)]
            fn narrow(from: &[Self], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
            #[inline(always)]
            fn seen<'a>(values: &'a [Self], _: &'a mut [Self]) -> &'a [Self] {
                values
            }
            #[inline(always)]
            fn open<'a>(to: &'a mut [Self], _: &'a mut [Self]) -> &'a mut [Self] {
                to
            }
            #[inline(always)]
            fn settle(_: &[Self], _: &mut [Self]) {}
            #[inline(always)]
            fn round(x: Self) -> Self {
                x
            }
        }
    )+ };
}

stored_as_it_is!(f32, f64);

/// Methods of the formats with half the bits of f32.
macro_rules! widened {
    () => {
        #[inline(always)]
        fn seen<'a>(values: &'a [Self], place: &'a mut [f32]) -> &'a [f32] {
            let place = &mut place[..values.len()];
            Self::widen(values, place);
            place
        }
        #[inline(always)]
        fn open<'a>(to: &'a mut [Self], place: &'a mut [f32]) -> &'a mut [f32] {
            &mut place[..to.len()]
        }
        #[inline(always)]
        fn settle(place: &[f32], to: &mut [Self]) {
            Self::narrow(&place[..to.len()], to);
        }
    };
}

impl Stored for f16 {
    type Wide = f32;
    widened!();
    #[inline(always)]
    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
    #[inline(always)]
    fn round(x: f32) -> f32 {
        round_f16(x)
    }
}

impl Stored for bf16 {
    type Wide = f32;
    widened!();
    #[inline(always)]
    fn widen(from: &[Self], to: &mut [f32]) {
        for (x, y) in from.iter().zip(to) {
            *y = f32::from_bits(u32::from(x.to_bits()) << 16);
        }
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [Self]) {
        narrow_bf16(from, to);
    }
    #[inline(always)]
    fn round(x: f32) -> f32 {
        round_bf16(x)
    }
}

/// Calls a function for the element type of a dtype.
macro_rules! by_format {
    ($dtype:expr, $($function:ident)::+($($argument:expr),*)) => {
        match $dtype {
            burn::tensor::DType::F64 => $($function)::+::<f64>($($argument),*),
            burn::tensor::DType::F32 => $($function)::+::<f32>($($argument),*),
            burn::tensor::DType::F16 => $($function)::+::<half::f16>($($argument),*),
            burn::tensor::DType::BF16 => $($function)::+::<half::bf16>($($argument),*),
            other => unreachable!("{other:?} is not a float format"),
        }
    };
}
pub(crate) use by_format;

/// Values that are widened at a time. They and related blocks stay in the L1 cache.
pub(crate) const BLOCK: usize = 1024;

/// Creates a tensor of these values.
pub(crate) fn tensor<T: Stored>(values: Vec<T>, layout: Layout) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), layout, T::dtype())
}

/// Creates a contiguous tensor of these values.
pub(crate) fn contiguous<T: Stored>(values: Vec<T>, shape: Shape) -> FlexTensor {
    tensor(values, Layout::contiguous(shape))
}

/// Returns values for an update in place, in the wide format until they are settled.
#[inline(always)]
pub(crate) fn changed<'a, T: Stored>(values: &'a mut [T], place: &'a mut [T::Wide]) -> &'a mut [T::Wide] {
    T::seen(values, place);
    T::open(values, place)
}

/// Applies a function to every value, in place if the buffer is not shared. Keeps the layout: a transposed view remains transposed.
pub(crate) fn map<T: Stored>(input: FlexTensor, f: impl Fn(T::Wide) -> T::Wide + Copy + Sync) -> FlexTensor {
    let mut input = trimmed(input);
    if input.is_unique() {
        let values = input.storage_mut::<T>().par_chunks_mut(CHUNK);
        values.for_each(|values| Arch::new().dispatch(MapHere { values, f }));
        return input;
    }
    let from = input.storage::<T>();
    let to = written(from.len(), CHUNK, |these, to| {
        let from = &from[these];
        Arch::new().dispatch(Map { from, to, f });
    });
    tensor(to, input.layout().clone())
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
            let xs = T::seen(from, &mut before);
            for (x, y) in xs.iter().zip(T::open(to, &mut after)) {
                *y = (self.f)(*x);
            }
            T::settle(&after, to);
        }
    }
}

struct MapHere<'a, T, F> {
    values: &'a mut [T],
    f: F,
}

impl<T: Stored, F: Fn(T::Wide) -> T::Wide> NullaryFnOnce for MapHere<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut place = [T::Wide::zero(); BLOCK];
        for values in self.values.chunks_mut(BLOCK) {
            for x in changed(values, &mut place) {
                *x = (self.f)(*x);
            }
            T::settle(&place, values);
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
            .for_each(|(xs, ys)| Arch::new().dispatch(ZipHere { xs, ys, f }));
        return left;
    }
    let xs = left.storage::<T>();
    let to = written(xs.len(), CHUNK, |these, to| {
        let (xs, ys) = (&xs[these.clone()], &ys[these]);
        Arch::new().dispatch(Zip { xs, ys, to, f });
    });
    contiguous(to, left.shape())
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
            let (xs, ys) = (T::seen(xs, &mut left), T::seen(ys, &mut right));
            for ((x, y), z) in xs.iter().zip(ys).zip(T::open(to, &mut after)) {
                *z = (self.f)(*x, *y);
            }
            T::settle(&after, to);
        }
    }
}

struct ZipHere<'a, T, F> {
    xs: &'a mut [T],
    ys: &'a [T],
    f: F,
}

impl<T: Stored, F: Fn(T::Wide, T::Wide) -> T::Wide> NullaryFnOnce for ZipHere<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [mut left, mut right] = [[T::Wide::zero(); BLOCK]; 2];
        for (xs, ys) in self.xs.chunks_mut(BLOCK).zip(self.ys.chunks(BLOCK)) {
            let ys = T::seen(ys, &mut right);
            for (x, y) in changed(xs, &mut left).iter_mut().zip(ys) {
                *x = (self.f)(*x, *y);
            }
            T::settle(&left, xs);
        }
    }
}

/// Returns the width of the rows of a shape.
pub(crate) fn width(shape: &Shape) -> usize {
    shape[shape.num_dims() - 1]
}

/// Returns the number of values in whole rows that make up about one chunk.
pub(crate) fn chunk_of_rows(n: usize) -> usize {
    (CHUNK / n).max(1) * n
}
