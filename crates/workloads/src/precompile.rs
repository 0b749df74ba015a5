//! Compiles the kernels of a cell before it is measured.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::tensor::{Device, Tensor};
use mantissa_collectives::Single;
use mantissa_core::{Axis, AxisValue, Backend, Cell, Phase};
use mantissa_precision::device;

use crate::{
    Inputs, Observer, OwnModel, Progress, WorkloadError,
    backend::{available, on_device},
    kernel_allowlist::permit_checked,
    kernel_folder::kernel_folder,
    outcome::read,
};

/// Compiles the kernels that a cell launches up to the end of its warm-up, and saves them to the kernel cache. Launches only the kernels of
/// the autotuner.
///
/// # Errors
/// Same as [`run`](crate::run): wrong input files, or a missing or failing device.
pub fn precompile(cell: &Cell, inputs: &Inputs, own_model: Option<&OwnModel>) -> Result<(), WorkloadError> {
    let backend = cell.setting.backend();
    if backend == Backend::Flex {
        return Ok(());
    }
    // Each of several devices has these kernels.
    let mut cell = cell.clone();
    if cell.setting.devices() > 1 {
        let one = cell.setting.set(Axis::Devices, AxisValue::Integer(1));
        one.unwrap_or_else(|error| unreachable!("one device is valid: {error}"));
    }
    // Load the kernels before the first use of the GPU.
    let kernel_cache = device::load_kernels(&kernel_folder(backend, &inputs.cache));
    available(backend).map_err(WorkloadError::device)?;
    permit_checked(backend, inputs);
    // Launch one kernel first, because skipped launches do not report errors of the compiler or the driver.
    let device = device::open(backend, cell.setting.fusion());
    launch_one(&device)?;
    let (finished, rejected) = device::compile_only(&device, || {
        catch_unwind(AssertUnwindSafe(|| {
            on_device(&cell, inputs, own_model, &mut Single, &mut StopAfterWarmUp)
        }))
    });
    let result = match finished {
        Ok(result) => result.map(drop),
        Err(payload) if payload.is::<WarmUpDone>() => Ok(()),
        Err(payload) => resume_unwind(payload),
    };
    let rejected = kernel_cache.rejected().into_iter().chain(rejected);
    let rejected = fail_if_rejected(rejected.collect());
    let problems = kernel_cache.save_kernels();
    result?;
    rejected?;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WorkloadError::device(problems.join("; "))),
    }
}

/// Fails with the first reason if the compiler rejected kernels.
pub(crate) fn fail_if_rejected(errors: Vec<String>) -> Result<(), WorkloadError> {
    match errors.first() {
        None => Ok(()),
        Some(error) => Err(WorkloadError::device(format!(
            "the compiler rejected a kernel: {error}"
        ))),
    }
}

/// Launches one kernel and waits for its result.
pub(crate) fn launch_one(device: &Device) -> Result<(), WorkloadError> {
    let sum = Tensor::<1>::ones([1], device) + 1;
    read::<f32, 1, _>(sum).map(drop)
}

/// Panic payload of [`StopAfterWarmUp`].
struct WarmUpDone;

/// Observer that stops a cell after its warm-up by unwinding, because a workload cannot be stopped otherwise.
struct StopAfterWarmUp;

impl Observer for StopAfterWarmUp {
    fn progress(&mut self, progress: Progress) {
        let done = match progress.phase {
            Phase::Prepare => false,
            Phase::WarmUp => progress.done == progress.total,
            Phase::Measure | Phase::Evaluate => true,
        };
        if done {
            // Unlike `panic!`, this does not call the panic hook, which ends the process.
            resume_unwind(Box::new(WarmUpDone));
        }
    }
}
