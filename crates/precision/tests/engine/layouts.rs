//! Tests of rounding f32 to layouts (numbers of exponent and fraction bits), on every backend, against the definition of the layouts.

use burn::{
    backend::Dispatch,
    tensor::{Device, Tensor, TensorData},
};
use mantissa_core::Layout;
use mantissa_precision::PrecisionBackend;

/// Returns values of every kind and magnitude, many of them halfway between two values of some layout.
fn values() -> Vec<f32> {
    let mut bits = vec![
        0,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
    ];
    for exponent in 1u32..255 {
        for fraction in [
            0,
            1,
            0x0fff,
            0x1000,
            0x3000,
            0x8000,
            0x0040_0000,
            0x0060_0000,
            0x0070_0000,
            0x007f_ffff,
        ] {
            bits.push(exponent << 23 | fraction);
        }
    }
    let both_signs = bits.into_iter().flat_map(|bits| [bits, bits | 0x8000_0000]);
    both_signs.map(f32::from_bits).collect()
}

fn check_rounding(what: &str, device: &Device) {
    let values = values();
    for (exponent, fraction) in [
        (8, 23),
        (8, 7),
        (8, 10),
        (5, 10),
        (5, 2),
        (4, 3),
        (2, 1),
        (3, 22),
        (7, 1),
    ] {
        let layout = Layout::new(exponent, fraction);
        let data = TensorData::new(values.clone(), [values.len()]);
        let tensor = Tensor::<1>::from_data(data, device);
        let rounded = Dispatch::round_to_layout(tensor.into_dispatch(), layout);
        let rounded = Tensor::<1>::from_dispatch(rounded).into_data();
        for (x, got) in values.iter().zip(rounded.iter::<f32>()) {
            let want = layout.round(f64::from(*x));
            // Vulkan does not specify if f32 subnormals are preserved.
            let flushed = x.is_subnormal() && got == 0.0;
            assert!(
                got.is_nan() && want.is_nan() || f64::from(got) == want || flushed,
                "{what}, {layout}: {x} is {got}, not {want}"
            );
        }
    }
}

#[test]
fn cpu_rounding_matches_the_definition_of_the_layout() {
    check_rounding("flex", &Device::flex());
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use mantissa_testing::alone;

    use super::*;

    #[test]
    fn gpu_rounding_matches_the_definition_of_the_layout() {
        if let Some(device) = crate::vulkan(false) {
            check_rounding("plain", &device);
        }
    }

    #[test]
    fn gpu_rounding_matches_the_definition_with_fusion() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                check_rounding("fused", &device);
            }
        });
    }
}
