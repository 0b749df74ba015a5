//! Rounding of f32 values on a GPU: to TF32 or bf16, for devices without matrix units for these formats, and to emulated layouts.

use burn::{backend::TensorMetadata, tensor::DType};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{
    calculate_cube_count_elemwise,
    prelude::*,
    std::tensor::layout::linear::{LinearView, LinearViewMut},
};
use mantissa_core::{BitRounding, Format, Layout};

use crate::launched_kernels::{Launch, record_kernel};

/// Rounds f32 values to TF32 or bf16, to nearest even, like the CPU backend. The values are still stored as f32. Does
/// nothing if the format is f32.
pub(super) fn round_operand(tensor: CubeTensor, format: Format) -> CubeTensor {
    let elements = tensor.shape().num_elements();
    if elements == 0 || format == Format::F32 {
        return tensor;
    }
    record_kernel(Launch {
        kernel: "round_fraction".into(),
        arithmetic: format!("f32 rounded to {format}").into(),
        instructions: None,
        emulated: true,
    });
    let dropped = Format::F32.significand_bits() - format.significand_bits();
    let client = tensor.client.clone();
    let output =
        empty_device_contiguous_dtype(client.clone(), tensor.device.clone(), tensor.shape(), DType::F32);
    let cube_dim = CubeDim::new(&client, elements);
    round_fraction::launch(
        &client,
        calculate_cube_count_elemwise(&client, elements, cube_dim),
        cube_dim,
        tensor.into_linear_view(),
        output.clone().into_linear_view(),
        dropped,
    );
    output
}

/// Rounds an operand as the matrix units do.
pub(super) fn round_as_matrix_units_do(tensor: CubeTensor) -> CubeTensor {
    match tensor.dtype {
        DType::F32 => round_operand(tensor, Format::Tf32),
        _ => tensor,
    }
}

/// Rounds off the lowest bits of the fraction, to nearest even. A carry may propagate into the exponent, which is the correct result.
/// Infinities are unchanged. A NaN becomes quiet, because its payload might be lost with the dropped bits.
#[cube(launch)]
fn round_fraction(input: LinearView<'_, u32>, mut output: LinearViewMut<'_, u32>, #[comptime] dropped: u32) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let half_less_one = comptime!((1u32 << (dropped - 1)) - 1);
    let kept = comptime!(!((1u32 << dropped) - 1));
    let bits = input.read(ABSOLUTE_POS);
    let magnitude = bits & 0x7fff_ffffu32;
    let rounded = (bits + half_less_one + ((bits >> dropped) & 1u32)) & kept;
    let special = select(magnitude > 0x7f80_0000u32, (bits | 0x0040_0000u32) & kept, bits);
    output.write(
        ABSOLUTE_POS,
        select(magnitude >= 0x7f80_0000u32, special, rounded),
    );
}

/// Rounds f32 values to a format with the exponent and fraction bits of `layout`, like the CPU backend.
pub(super) fn round_to_layout(tensor: CubeTensor, layout: Layout) -> CubeTensor {
    let elements = tensor.shape().num_elements();
    if elements == 0 {
        return tensor;
    }
    let limits = BitRounding::of(layout);
    let client = tensor.client.clone();
    let output =
        empty_device_contiguous_dtype(client.clone(), tensor.device.clone(), tensor.shape(), DType::F32);
    let cube_dim = CubeDim::new(&client, elements);
    round_layout::launch(
        &client,
        calculate_cube_count_elemwise(&client, elements, cube_dim),
        cube_dim,
        tensor.into_linear_view(),
        output.clone().into_linear_view(),
        limits.lowest,
        limits.dropped,
        limits.smallest,
        limits.largest,
    );
    output
}

/// Implements [`BitRounding::round`] for each 32-bit word.
#[cube(launch)]
fn round_layout(
    input: LinearView<'_, u32>,
    mut output: LinearViewMut<'_, u32>,
    #[comptime] lowest: u32,
    #[comptime] least_dropped: u32,
    #[comptime] smallest: u32,
    #[comptime] largest: u32,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let bits = input.read(ABSOLUTE_POS);
    let magnitude = bits & 0x7fff_ffffu32;
    let raw = magnitude >> 23u32;
    let field = select(raw == 0u32, 1u32, raw);
    let dropped = select(field < lowest, least_dropped + lowest - field, least_dropped);
    let shift = select(dropped > 22u32, 22u32, dropped);
    let unit = 1u32 << shift;
    let odd = (magnitude >> shift) & 1u32;
    let up = select(shift == 0u32, 0u32, (unit >> 1u32) + odd - 1u32);
    let ordinary = (magnitude + up) & (0xffff_ffffu32 - (unit - 1u32));
    let to_hidden = (magnitude + 0x0040_0000u32) & 0x7f80_0000u32;
    let to_smallest = select((magnitude & 0x007f_ffffu32) == 0u32, 0u32, smallest);
    let deep = select(dropped == 24u32, to_smallest, 0u32);
    let below = select(dropped == 23u32, to_hidden, deep);
    let rounded = select(dropped < 23u32, ordinary, below);
    let finite = select(rounded > largest, 0x7f80_0000u32, rounded);
    let kept = select(magnitude >= 0x7f80_0000u32, magnitude, finite);
    output.write(ABSOLUTE_POS, (bits & 0x8000_0000u32) | kept);
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe {
    use super::*;
    use crate::cube::testing::{download, upload, vulkan};

    #[test]
    fn rounding_matches_the_definition_of_the_format() {
        let Some(device) = vulkan() else { return };
        // Every exponent with fractions at, above and below a tie of either format, of both signs.
        let fractions = [
            0, 1, 0xfff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001, 0x1_8000, 0x7f_ffff,
        ];
        let bits = (0..=255u32).flat_map(|exponent| fractions.map(|fraction| exponent << 23 | fraction));
        let values: Vec<f32> = bits
            .flat_map(|bits| [bits, bits | 0x8000_0000])
            .map(f32::from_bits)
            .collect();
        for format in [Format::Tf32, Format::Bf16, Format::F32] {
            let rounded = round_operand(upload(&values, [values.len()], &device), format);
            for (x, got) in values.iter().zip(download::<f32>(rounded)) {
                let want = format.round(f64::from(*x)).value;
                let same = got.is_nan() && want.is_nan() || f64::from(got).to_bits() == want.to_bits();
                assert!(same, "{format} of {x:e} is {got:e}, not {want:e}");
            }
        }
    }
}
