//! Dropout on a GPU, with the same masks as on the CPU.

use burn::backend::{TensorMetadata, cubecl::dtype_to_elem_type};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{
    calculate_cube_count_elemwise,
    prelude::*,
    std::tensor::layout::linear::{LinearView, LinearViewMut},
};
use mantissa_cpu_kernels::DropoutMask;

/// Replaces the elements that `mask` drops by 0.
pub(super) fn zero_dropped(tensor: CubeTensor, mask: DropoutMask) -> CubeTensor {
    let (elements, dtype) = (tensor.shape().num_elements(), tensor.dtype);
    if elements == 0 {
        return tensor;
    }
    let client = tensor.client.clone();
    let output = empty_device_contiguous_dtype(client.clone(), tensor.device.clone(), tensor.shape(), dtype);
    let cube_dim = CubeDim::new(&client, elements);
    let addresses = tensor.required_address_type().max(output.required_address_type());
    zero::launch(
        &client,
        calculate_cube_count_elemwise(&client, elements, cube_dim),
        cube_dim,
        addresses,
        tensor.into_linear_view(),
        output.clone().into_linear_view(),
        mask.elements_per_example(elements),
        mask.first_example,
        mask.key[0],
        mask.key[1],
        mask.threshold,
        dtype_to_elem_type(dtype),
    );
    output
}

#[cube(launch, address_type = "dynamic")]
fn zero<F: Float>(
    input: LinearView<'_, F>,
    mut output: LinearViewMut<'_, F>,
    per_example: usize,
    first_example: u32,
    key_low: u32,
    key_high: u32,
    threshold: u32,
    #[define(F)] _dtype: ElemType,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let element = u32::cast_from(ABSOLUTE_POS % per_example);
    let example = first_example + u32::cast_from(ABSOLUTE_POS / per_example);
    let is_kept = random(element, example, key_low, key_high) < threshold;
    output.write(
        ABSOLUTE_POS,
        select(is_kept, input.read(ABSOLUTE_POS), F::new(0.0)),
    );
}

/// Computes the first word of pcg4d, like the CPU.
#[cube]
fn random(x: u32, y: u32, z: u32, w: u32) -> u32 {
    let x = x * 1_664_525u32 + 1_013_904_223u32;
    let y = y * 1_664_525u32 + 1_013_904_223u32;
    let z = z * 1_664_525u32 + 1_013_904_223u32;
    let w = w * 1_664_525u32 + 1_013_904_223u32;
    let x = x + y * w;
    let y = y + z * x;
    let z = z + x * y;
    let w = w + y * z;
    let x = x ^ (x >> 16u32);
    let y = y ^ (y >> 16u32);
    let w = w ^ (w >> 16u32);
    x + y * w
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe {
    use burn::tensor::{Device, Tensor, TensorData};
    use burn_flex::Flex;

    use super::*;
    use crate::cube::testing::{download, upload, vulkan};

    #[test]
    fn a_gpu_drops_the_same_elements_as_the_cpu() {
        let Some(device) = vulkan() else { return };
        let values: Vec<f32> = (1..=6 * 1001).map(|value| value as f32).collect();
        for (examples, first_example, key) in
            [(6, 0, [1, 2]), (6, u32::MAX - 2, [u32::MAX, 7]), (7, 3, [0, 0])]
        {
            let mask = DropoutMask {
                examples,
                first_example,
                key,
                threshold: 0xc000_0000,
            };
            let got = download::<f32>(zero_dropped(upload(&values, [values.len()], &device), mask));
            let data = TensorData::new(values.clone(), [values.len()]);
            let on_cpu = Tensor::<1>::from_data(data, &Device::flex());
            let on_cpu =
                mantissa_cpu_kernels::zero_dropped(on_cpu.try_into_primitive::<Flex>().unwrap(), mask);
            let wanted = Tensor::<1>::from_primitive::<Flex>(on_cpu).into_data();
            let wanted: Vec<f32> = wanted.iter().collect();
            assert!(wanted.contains(&0.0) && wanted.iter().any(|value| *value > 0.0));
            assert_eq!(got, wanted, "{mask:?}");
        }
    }
}
