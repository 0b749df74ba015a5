//! GELU on pairs of 16-bit values on a GPU: two values an instruction, but for the tanh.

use burn::tensor::TensorMetadata;
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};
use cubecl::{calculate_cube_count_elemwise, prelude::*, std::tensor::layout::linear::LinearView};
use mantissa_core::Format;

use crate::{
    backend::{TANH_CUBE, TANH_LINE},
    launched::{Launch, note},
};

/// Values that an instruction takes.
const PAIR: usize = 2;

/// GELU with the tanh of f32 and all else in the arithmetic of the 16-bit input. An input of an odd number of values is
/// taken one by one.
///
/// # Panics
/// On values wider than 16 bits.
pub(super) fn tanh_packed<R: CubeRuntime>(input: CubeTensor<R>) -> CubeTensor<R> {
    let dtype = input.dtype;
    assert_eq!(
        dtype.size() * PAIR,
        Format::F32.storage_bytes() as usize,
        "16-bit values"
    );
    let elements = input.shape().num_elements();
    if elements == 0 {
        return input;
    }
    let width = if elements.is_multiple_of(PAIR) { PAIR } else { 1 };
    note(Launch {
        kernel: "gelu_tanh_packed".into(),
        arithmetic: format!("{} × {width}, tanh in f32", dtype.name()).into(),
        emulated: false,
    });
    // A flat view, so that a row of odd width does not part a pair.
    let input = into_contiguous(input);
    let client = input.client.clone();
    let output = empty_device_contiguous_dtype(client.clone(), input.device.clone(), input.shape(), dtype);
    let pairs = elements / width;
    let cube_dim = CubeDim::new(&client, pairs);
    gelu_tanh_packed::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, pairs, cube_dim),
        cube_dim,
        width,
        input.into_linear_view(),
        output.clone().into_linear_view(),
        dtype.into(),
    );
    output
}

#[cube(launch)]
fn gelu_tanh_packed<F: Float, N: Size>(
    input: &LinearView<Vector<F, N>>,
    output: &mut LinearView<Vector<F, N>, ReadWrite>,
    #[define(F)] _dtype: StorageType,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let x = input[ABSOLUTE_POS];
    let line = Vector::new(F::new(comptime!(TANH_LINE as f32)));
    let cube = Vector::new(F::new(comptime!((TANH_LINE * TANH_CUBE) as f32)));
    let argument = x * (x * x * cube + line);
    let tanh = Vector::<F, N>::cast_from(Vector::<f32, N>::cast_from(argument).tanh());
    let half = x * Vector::new(F::new(0.5));
    output[ABSOLUTE_POS] = half * tanh + half;
}
