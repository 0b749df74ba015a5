//! From a cell to the backend that runs it: the one place where the backend becomes a type.

use mantissa_core::{Backend, Cell, Format, MatmulPrecision, Setting, Task};
use mantissa_precision::{PrecisionBackend, device};

use crate::{Inputs, Observer, Outcome, WorkloadError, kernel, train};

pub use mantissa_precision::device::{Support, available, device_name, format_support};

/// Version of burn that this build runs on.
pub const BURN_VERSION: &str = "0.21.0";

/// Runs a cell on the backend of its setting.
///
/// # Errors
/// The user's files are wrong, the machine lacks what the setting asks for, or the device failed.
pub fn run(cell: &Cell, inputs: &Inputs, observer: &mut dyn Observer) -> Result<Outcome, WorkloadError> {
    available(cell.setting.backend()).map_err(WorkloadError::Unavailable)?;
    match (cell.setting.backend(), cell.setting.fusion()) {
        (Backend::Flex, _) => run_on::<device::Flex>(cell, inputs, observer),
        #[cfg(feature = "cuda")]
        (Backend::Cuda, true) => run_on::<device::CudaFused>(cell, inputs, observer),
        #[cfg(feature = "cuda")]
        (Backend::Cuda, false) => run_on::<device::CudaPlain>(cell, inputs, observer),
        #[cfg(feature = "vulkan")]
        (Backend::Vulkan, true) => run_on::<device::VulkanFused>(cell, inputs, observer),
        #[cfg(feature = "vulkan")]
        (Backend::Vulkan, false) => run_on::<device::VulkanPlain>(cell, inputs, observer),
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        (backend, _) => unreachable!("`{backend}` is not available in this build"),
    }
}

fn run_on<B: PrecisionBackend>(
    cell: &Cell,
    inputs: &Inputs,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let device = B::Device::default();
    for format in formats(&cell.setting) {
        if !device::supports::<B>(format, &device) {
            let backend = cell.setting.backend();
            return Err(WorkloadError::Unavailable(format!(
                "the `{backend}` device does not compute in `{format}`"
            )));
        }
    }
    match &cell.workload.task {
        Task::Train(task) => train::train::<B>(cell, task, inputs, &device, observer),
        Task::Kernel(task) => kernel::kernel::<B>(cell, task, &device, observer),
    }
}

/// Formats in which a setting stores tensors.
fn formats(setting: &Setting) -> Vec<Format> {
    let precision = setting.precision();
    let mut formats = vec![precision.parameters(), precision.compute()];
    if setting.matmul() == MatmulPrecision::Medium {
        formats.push(Format::Bf16);
    }
    formats.dedup();
    formats
}
