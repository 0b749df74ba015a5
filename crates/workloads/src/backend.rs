//! From a cell to the backend that runs it: the one place where the backend becomes a type.

use std::path::{Path, PathBuf};

use mantissa_core::{Attention, Backend, Cell, Format, KernelKind, Model, Setting, Task, open_own_program};
use mantissa_precision::{Compute, Operation, PrecisionBackend, Probed, device, probe};

use crate::{
    Inputs, Observer, Outcome, OwnModel, WorkloadError, evaluate, generate, kernel,
    subject::{BuiltIn, kept_operations},
    train,
};

pub use mantissa_precision::device::{available, device_name, device_uuid, format_support};

/// Version of burn that this build runs on.
pub const BURN_VERSION: &str = "0.21.0";

/// Runs a cell on the backend of its setting: with the `own` model of the program where that is asked for.
///
/// # Errors
/// The user's files are wrong, the machine lacks what the setting asks for, or the device failed.
pub fn run(
    cell: &Cell,
    inputs: &Inputs,
    own: Option<&OwnModel>,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    match (cell.workload.model(), own) {
        (Some(Model::Own), Some(own)) => own.run(cell, inputs, observer),
        _ => on_backend(cell, inputs, BuiltInTask { cell, inputs }, observer),
    }
}

/// What is done on a backend, whatever type it has.
pub(crate) trait OnBackend {
    /// Does it.
    fn on<B: PrecisionBackend>(
        self,
        device: &B::Device,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, WorkloadError>;
}

/// A cell of which nothing is the user's own.
struct BuiltInTask<'a> {
    cell: &'a Cell,
    inputs: &'a Inputs,
}

impl OnBackend for BuiltInTask<'_> {
    fn on<B: PrecisionBackend>(
        self,
        device: &B::Device,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, WorkloadError> {
        let Self { cell, inputs } = self;
        match &cell.workload.task {
            Task::Train(task) => train::train::<B, _>(cell, task, inputs, device, observer, BuiltIn),
            Task::Evaluate(task) => evaluate::evaluate::<B, _>(cell, task, inputs, device, observer, BuiltIn),
            Task::Generate(task) => generate::generate::<B>(cell, task, inputs, device, observer),
            Task::Kernel(task) => kernel::kernel::<B>(cell, task, device, observer),
        }
    }
}

/// Does the work of a cell on the backend of its setting, and observes how that computes.
pub(crate) fn on_backend<W: OnBackend>(
    cell: &Cell,
    inputs: &Inputs,
    work: W,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let backend = cell.setting.backend();
    if backend != Backend::Flex {
        device::keep_kernels(&kernel_folder(backend, &inputs.cache));
    }
    // It was there when the run was planned: a cell that is skipped would never be tried again.
    available(backend).map_err(WorkloadError::Device)?;
    // Tests of this crate run cells on the CPU, and name the backend of a GPU by its type: every backend here compiles all
    // models and tasks anew.
    match (cell.setting.backend(), cell.setting.fusion()) {
        (Backend::Flex, _) => run_on::<device::Flex, _>(cell, work, observer),
        #[cfg(all(feature = "cuda", not(test)))]
        (Backend::Cuda, true) => run_on::<device::CudaFused, _>(cell, work, observer),
        #[cfg(all(feature = "cuda", not(test)))]
        (Backend::Cuda, false) => run_on::<device::CudaPlain, _>(cell, work, observer),
        #[cfg(all(feature = "vulkan", not(test)))]
        (Backend::Vulkan, true) => run_on::<device::VulkanFused, _>(cell, work, observer),
        #[cfg(all(feature = "vulkan", not(test)))]
        (Backend::Vulkan, false) => run_on::<device::VulkanPlain, _>(cell, work, observer),
        #[cfg(any(test, not(all(feature = "cuda", feature = "vulkan"))))]
        (backend, _) => unreachable!("`{backend}` is not available in this build"),
    }
}

/// Where the kernels of this device and this very program are kept: another build may compile another kernel under the
/// same name.
fn kernel_folder(backend: Backend, cache: &Path) -> PathBuf {
    let mut hasher = blake3::Hasher::new();
    hasher.update(device::kernel_identity(backend).as_bytes());
    // An error leaves the kernels of all programs that cannot be read together.
    let _ = open_own_program().and_then(|program| hasher.update_reader(program).map(drop));
    let id = hasher.finalize().to_hex();
    cache.join("kernels").join(&id[..16])
}

fn run_on<B: PrecisionBackend, W: OnBackend>(
    cell: &Cell,
    work: W,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let device = B::Device::default();
    for format in formats(&cell.setting) {
        if !device::supports::<B>(format, &device) {
            let backend = cell.setting.backend();
            return Err(WorkloadError::Unavailable(format!(
                "burn {BURN_VERSION} does not compute in `{format}` on this `{backend}` device"
            )));
        }
    }
    let compute = Compute::of(&cell.setting);
    let probed = probed::<B>(cell, compute, &device).map_err(WorkloadError::Device)?;
    let mut outcome = work.on::<B>(&device, observer)?;
    outcome.executed = probed.confirm();
    Ok(outcome)
}

/// What the products of a cell are, and those of the layers that it keeps in f32.
fn probed<B: PrecisionBackend>(cell: &Cell, compute: Compute, device: &B::Device) -> Result<Probed, String> {
    let observe =
        |operations: &[_], compute: Compute| probe::<B>(operations, compute, &compute.requested(), device);
    let probed = observe(&operations(cell), compute)?;
    let kept = kept_operations(cell);
    if kept.is_empty() {
        return Ok(probed);
    }
    Ok(probed.beside("layers kept in f32", observe(&kept, compute.in_f32())?))
}

/// The operations of a cell that sum products.
pub(crate) fn operations(cell: &Cell) -> Vec<Operation> {
    let fused = cell.setting.attention() == Attention::Fused;
    let model = cell.workload.model();
    match &cell.workload.task {
        Task::Kernel(task) => match task.kernel.kind() {
            KernelKind::Convolution => vec![Operation::Convolution],
            KernelKind::Attention if fused => vec![Operation::FusedAttention],
            KernelKind::Attention | KernelKind::Matmul => vec![Operation::Matmul],
            // There is no product whose bits could be looked at.
            _ => vec![],
        },
        Task::Generate(_) => vec![Operation::Matmul, Operation::FewRows],
        _ if model.is_some_and(Model::convolves) => vec![Operation::Matmul, Operation::Convolution],
        _ if fused => vec![Operation::Matmul, Operation::FusedAttention],
        _ => vec![Operation::Matmul],
    }
}

/// Formats in which a setting stores tensors.
fn formats(setting: &Setting) -> Vec<Format> {
    let precision = setting.precision();
    let mut formats = vec![precision.parameters(), precision.compute()];
    formats.dedup();
    formats
}
