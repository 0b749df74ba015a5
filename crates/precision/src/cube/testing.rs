//! Test helpers: a Vulkan device and tensors on it.

use burn::{
    backend::{Backend as _, DTypeUsage, DispatchDevice, ops::FloatTensorOps},
    tensor::{DType, Device, DeviceKind, Element, TensorData},
};
use burn_cubecl::{
    CubeBackend, CubeDevice,
    kernel::into_contiguous,
    ops::{into_data_sync, permute},
    tensor::CubeTensor,
};
use mantissa_core::Backend;

use crate::device::available;

/// Returns a Vulkan device, or `None` if Vulkan is not available.
///
/// # Panics
/// If `MANTISSA_REQUIRE` names Vulkan and it is not available.
pub(super) fn vulkan() -> Option<CubeDevice> {
    if !mantissa_testing::is_available("vulkan", available(Backend::Vulkan)) {
        return None;
    }
    match Device::vulkan(DeviceKind::DefaultDevice).as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.clone()),
        other => unreachable!("expected a CubeCL device, found {other:?}"),
    }
}

/// Returns true if a device computes in f64. Prints `skipped` otherwise.
pub(super) fn computes_in_f64(device: &CubeDevice) -> bool {
    let found = CubeBackend::dtype_usage(device, DType::F64).contains(DTypeUsage::Arithmetic);
    if !found {
        println!("skipped: the device does not support f64");
    }
    found
}

pub(super) fn upload<E: Element, const D: usize>(
    values: &[E],
    shape: [usize; D],
    device: &CubeDevice,
) -> CubeTensor {
    CubeBackend::float_from_data(TensorData::new(values.to_vec(), shape), device)
}

pub(super) fn download<E: Element>(tensor: CubeTensor) -> Vec<E> {
    into_data_sync(tensor).iter::<E>().collect()
}

/// Returns one tensor `[n, heads, rows, columns]` in four memory layouts: contiguous, transposed, as a view that splits a projection into
/// heads, and as the transpose of such a view. Also returns the values.
pub(super) fn layouts(shape: [usize; 4], seed: u64, device: &CubeDevice) -> (Vec<f32>, [CubeTensor; 4]) {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 60) as f32 - 8.0
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
    let whole = upload(&values, shape, device);
    let stored_as =
        |axes: [usize; 4], back: [usize; 4]| permute(into_contiguous(permute(whole.clone(), &axes)), &back);
    let views = [
        whole.clone(),
        stored_as([0, 1, 3, 2], [0, 1, 3, 2]),
        stored_as([0, 2, 1, 3], [0, 2, 1, 3]),
        stored_as([0, 3, 1, 2], [0, 2, 3, 1]),
    ];
    (values, views)
}
