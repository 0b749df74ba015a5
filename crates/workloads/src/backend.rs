//! Runs cells on the devices of their settings.

use burn::tensor::Device;
use mantissa_collectives::{Group, Single};
use mantissa_core::{Backend, Cell, Event, EventKind, Format, Model, Setting, Task};
use mantissa_precision::{Compute, Probed, device, probe};

use crate::{
    Inputs, Observer, Outcome, OwnModel, WorkloadError, evaluate, generate, kernel,
    kernel_allowlist::permit_checked,
    model_and_data::BuiltIn,
    operations::{f32_operations, operations},
    train,
};

pub use crate::kernel_folder::kernel_folder;
pub use mantissa_precision::{
    device::{available, device_name, device_uuids, format_support},
    nccl_version,
};

/// Version of burn that this build runs on.
pub const BURN_VERSION: &str = "0.22.1";

/// Runs a cell on the backend of its setting. If the cell requests the user's model, runs `own_model`. This process is one rank of the
/// group. It uses the first device of the backend.
///
/// # Errors
/// An input file is invalid, the machine does not support the setting, or the device failed.
pub fn run(
    cell: &Cell,
    inputs: &Inputs,
    own_model: Option<&OwnModel>,
    group: &mut dyn Group,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let backend = cell.setting.backend();
    if backend == Backend::Flex {
        available(backend).map_err(WorkloadError::device)?;
        let device = device::open(backend, cell.setting.fusion());
        return probe_and_run(cell, inputs, own_model, &device, group, observer);
    }
    // Load the kernels first: this must precede the first use of the GPU, and detecting the GPU may already use it.
    let kernel_cache = device::load_kernels(&kernel_folder(backend, &inputs.cache));
    let unchecked = permit_checked(backend, inputs);
    let result = on_device(cell, inputs, own_model, group, observer);
    let problems = kernel_cache.save();
    result.map(|mut outcome| {
        outcome
            .events
            .extend(unchecked.map(|reason| Event::new(EventKind::Warning, reason)));
        outcome.events.extend(
            problems
                .into_iter()
                .map(|problem| Event::new(EventKind::KernelCache, problem)),
        );
        outcome
    })
}

/// Runs a cell on the GPU of its setting.
pub(crate) fn on_device(
    cell: &Cell,
    inputs: &Inputs,
    own_model: Option<&OwnModel>,
    group: &mut dyn Group,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let setting = &cell.setting;
    let backend = setting.backend();
    // Report a device error instead of skipping the cell: the device was available when the run was planned, and skipped cells are not retried.
    available(backend).map_err(WorkloadError::device)?;
    let device = device::open(backend, setting.fusion());
    if group.size() > 1 {
        // Only this thread may use the group.
        return probe_and_run(cell, inputs, own_model, &device, group, observer);
    }
    device::run_on_stream_thread(&device, || {
        probe_and_run(cell, inputs, own_model, &device, &mut Single, observer)
    })
}

/// Probes the precision in which the device computes, and runs the cell on the device.
fn probe_and_run(
    cell: &Cell,
    inputs: &Inputs,
    own_model: Option<&OwnModel>,
    device: &Device,
    group: &mut dyn Group,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let (setting, backend) = (&cell.setting, cell.setting.backend());
    for format in stored_formats(setting) {
        if !device::supports(format, device) {
            return Err(WorkloadError::unavailable(format!(
                "burn {BURN_VERSION} does not support `{format}` on this `{backend}` device"
            )));
        }
    }
    let probed = probe_matmuls(cell, Compute::of(setting), device).map_err(WorkloadError::device)?;
    let mut outcome = match (cell.workload.model(), own_model) {
        (Some(Model::Own), Some(own_model)) => own_model.run(cell, inputs, device, group, observer)?,
        _ => built_in(cell, inputs, device, group, observer)?,
    };
    outcome.executed = probed.with_later_launches();
    Ok(outcome)
}

/// Runs a cell with a built-in model.
fn built_in(
    cell: &Cell,
    inputs: &Inputs,
    device: &Device,
    group: &mut dyn Group,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    match &cell.workload.task {
        Task::Train(task) => train::train(cell, task, inputs, device, group, observer, BuiltIn),
        Task::Evaluate(task) => evaluate::evaluate(cell, task, inputs, device, observer, BuiltIn),
        Task::Generate(task) => generate::generate(cell, task, inputs, device, observer),
        Task::Kernel(task) => kernel::kernel(cell, task, device, observer),
    }
}

/// Probes the matmuls of a cell. The layers that the cell keeps in f32 are probed separately.
fn probe_matmuls(cell: &Cell, compute: Compute, device: &Device) -> Result<Probed, String> {
    let probe_in =
        |operations: &[_], compute: Compute| probe(operations, compute, &compute.requested(), device);
    let probed = probe_in(&operations(cell), compute)?;
    let in_f32 = f32_operations(cell);
    if in_f32.is_empty() {
        return Ok(probed);
    }
    Ok(probed.merged_with("layers kept in f32", probe_in(&in_f32, compute.in_f32())?))
}

/// Returns the formats in which a setting stores tensors.
fn stored_formats(setting: &Setting) -> Vec<Format> {
    let precision = setting.precision();
    let mut stored_formats = vec![precision.parameters(), precision.compute()];
    if setting.sums_with_nccl() {
        stored_formats.push(setting.reduce_format().into());
    }
    stored_formats.dedup();
    stored_formats
}
