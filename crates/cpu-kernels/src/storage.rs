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
    /// Returns values in the wide format: `values` itself if it is already wide, because a copy takes as long as the arithmetic. Otherwise,
    /// returns a copy widened into `buffer`.
    fn to_wide<'a>(values: &'a [Self], buffer: &'a mut [Self::Wide]) -> &'a [Self::Wide];
    /// Returns the slice for results in the wide format: `to` itself if it is wide, otherwise `buffer`. Call [`store`](Self::store)
    /// afterwards.
    fn wide_output<'a>(to: &'a mut [Self], buffer: &'a mut [Self::Wide]) -> &'a mut [Self::Wide];
    /// Narrows results from `buffer` into `to`, if [`wide_output`](Self::wide_output) returned the buffer.
    fn store(buffer: &[Self::Wide], to: &mut [Self]);
    /// Rounds a value as if it were stored and loaded.
    fn round(x: Self::Wide) -> Self::Wide;
}

macro_rules! impl_stored_unchanged {
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
            fn to_wide<'a>(values: &'a [Self], _: &'a mut [Self]) -> &'a [Self] {
                values
            }
            #[inline(always)]
            fn wide_output<'a>(to: &'a mut [Self], _: &'a mut [Self]) -> &'a mut [Self] {
                to
            }
            #[inline(always)]
            fn store(_: &[Self], _: &mut [Self]) {}
            #[inline(always)]
            fn round(x: Self) -> Self {
                x
            }
        }
    )+ };
}

impl_stored_unchanged!(f32, f64);

/// Methods that f16 and bf16 have in common.
macro_rules! methods_of_16_bit_formats {
    () => {
        #[inline(always)]
        fn to_wide<'a>(values: &'a [Self], buffer: &'a mut [f32]) -> &'a [f32] {
            let buffer = &mut buffer[..values.len()];
            Self::widen(values, buffer);
            buffer
        }
        #[inline(always)]
        fn wide_output<'a>(to: &'a mut [Self], buffer: &'a mut [f32]) -> &'a mut [f32] {
            &mut buffer[..to.len()]
        }
        #[inline(always)]
        fn store(buffer: &[f32], to: &mut [Self]) {
            Self::narrow(&buffer[..to.len()], to);
        }
    };
}

impl Stored for f16 {
    type Wide = f32;
    methods_of_16_bit_formats!();
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
    methods_of_16_bit_formats!();
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

/// Elements per parallel task: 128 KiB of f32, which fits into the L2 cache.
pub(crate) const CHUNK: usize = 32 * 1024;

/// Number of values that are widened at a time. The blocks of all operands fit into the L1 cache.
pub(crate) const BLOCK: usize = 1024;

/// Creates a tensor of these values.
pub(crate) fn tensor_with_layout<T: Stored>(values: Vec<T>, layout: Layout) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), layout, T::dtype())
}

/// Creates a contiguous tensor of these values.
pub(crate) fn contiguous_tensor<T: Stored>(values: Vec<T>, shape: Shape) -> FlexTensor {
    tensor_with_layout(values, Layout::contiguous(shape))
}

/// Returns values in the wide format, for an update in place. Call [`Stored::store`] afterwards.
#[inline(always)]
pub(crate) fn to_wide_mut<'a, T: Stored>(
    values: &'a mut [T],
    buffer: &'a mut [T::Wide],
) -> &'a mut [T::Wide] {
    T::to_wide(values, buffer);
    T::wide_output(values, buffer)
}

/// Returns the size of the last dimension.
pub(crate) fn row_width(shape: &Shape) -> usize {
    shape[shape.num_dims() - 1]
}

/// Returns the number of values in whole rows that make up about one chunk.
pub(crate) fn chunk_of_rows(n: usize) -> usize {
    (CHUNK / n).max(1) * n
}
