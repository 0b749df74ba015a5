//! GELU on pairs of 16-bit values on a GPU, with the tanh in f32. cubecl 0.11 loads and stores pairs, but computes their values one by
//! one: it does not use packed instructions for 16-bit arithmetic (`docs/burn-traps.md`).

use burn::backend::{TensorMetadata, cubecl::dtype_to_elem_type};
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{
    calculate_cube_count_elemwise,
    prelude::*,
    std::tensor::layout::linear::{LinearView, LinearViewMut},
};
use mantissa_core::{Format, Gelu};

use crate::launched_kernels::{Launch, record_kernel};

/// Values per load and store.
const PAIR: usize = 2;

/// Computes GELU with the tanh in f32 and everything else in the arithmetic of the 16-bit input. If the number of
/// values is odd, they are processed one by one.
///
/// # Panics
/// On values wider than 16 bits.
pub(super) fn tanh_packed(input: CubeTensor) -> CubeTensor {
    let dtype = input.dtype;
    assert_eq!(
        dtype.size() * PAIR,
        Format::F32.storage_bytes() as usize,
        "packed GELU supports only 16-bit formats"
    );
    let elements = input.shape().num_elements();
    if elements == 0 {
        return input;
    }
    let width = if elements.is_multiple_of(PAIR) { PAIR } else { 1 };
    record_kernel(Launch {
        kernel: "gelu_tanh_packed".into(),
        arithmetic: format!("{}, tanh in f32", dtype.name()).into(),
        instructions: None,
        emulated: false,
    });
    // In a flat view a pair may span two rows, so rows may have an odd width.
    let input = into_contiguous(input);
    let client = input.client.clone();
    let output = empty_device_contiguous_dtype(client.clone(), input.device.clone(), input.shape(), dtype);
    let pairs = elements / width;
    let cube_dim = CubeDim::new(&client, pairs);
    gelu_tanh_packed::launch(
        &client,
        calculate_cube_count_elemwise(&client, pairs, cube_dim),
        cube_dim,
        width,
        input.into_linear_view(),
        output.clone().into_linear_view(),
        dtype_to_elem_type(dtype),
    );
    output
}

#[cube(launch)]
fn gelu_tanh_packed<F: Float, N: Size>(
    input: LinearView<'_, Vector<F, N>>,
    mut output: LinearViewMut<'_, Vector<F, N>>,
    #[define(F)] _dtype: ElemType,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let x = input.read(ABSOLUTE_POS);
    let line = Vector::new(F::new(comptime!(Gelu::TANH_LINE as f32)));
    let cube = Vector::new(F::new(comptime!((Gelu::TANH_LINE * Gelu::TANH_CUBE) as f32)));
    let argument = x * (x * x * cube + line);
    let tanh = Vector::<F, N>::cast_from(Vector::<f32, N>::cast_from(argument).tanh());
    let half = x * Vector::new(F::new(0.5));
    output.write(ABSOLUTE_POS, half * tanh + half);
}
