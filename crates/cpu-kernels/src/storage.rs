//! Storage formats of tensors, and their conversion to and from the format of intermediate results.

use burn::tensor::{Bytes, Shape};
use burn_flex::{FlexTensor, Layout};
use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::{
    rounding::{narrow_bf16, round_bf16, round_f16},
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

/// Elements per piece of work: 128 KiB of f32, which fits into the L2 cache.
pub(crate) const CHUNK: usize = 32 * 1024;

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

/// Returns the width of the rows of a shape.
pub(crate) fn width(shape: &Shape) -> usize {
    shape[shape.num_dims() - 1]
}

/// Returns the number of values in whole rows that make up about one chunk.
pub(crate) fn chunk_of_rows(n: usize) -> usize {
    (CHUNK / n).max(1) * n
}
