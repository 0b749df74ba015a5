//! Test helpers: a Vulkan device and tensors on it.

use burn::{
    backend::{Backend as _, DTypeUsage, DispatchDevice, ops::FloatTensorOps},
    tensor::{DType, Device, DeviceKind, Element, TensorData},
};
use burn_cubecl::{CubeBackend, CubeDevice, ops::into_data_sync, tensor::CubeTensor};
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
