//! Compiles the kernels of a cell before it is measured.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::tensor::{Device, Tensor};
use mantissa_core::{Backend, Cell, Phase};
use mantissa_precision::device;

use crate::{
    Inputs, Observer, OwnModel, Progress, WorkloadError,
    backend::{available, on_device},
    kernel_allowlist::permit_checked,
    kernel_folder::kernel_folder,
    outcome::read,
};

/// Compiles the kernels that a cell launches up to the end of its warm-up, and saves them to the kernel cache. No kernel is launched,
/// apart from the autotuner's.
///
/// # Errors
/// Same as [`run`](crate::run): wrong input files, or a missing or failing device.
pub fn precompile(cell: &Cell, inputs: &Inputs, own: Option<&OwnModel>) -> Result<(), WorkloadError> {
    let backend = cell.setting.backend();
    if backend == Backend::Flex {
        return Ok(());
    }
    // Before the first use of the GPU.
    let kept = device::load_kernels(&kernel_folder(backend, &inputs.cache));
    available(backend).map_err(WorkloadError::device)?;
    permit_checked(backend, inputs);
    // Launch one kernel first: skipped launches do not report errors of the compiler or the driver.
    let device = device::open(backend, cell.setting.fusion());
    launch_one(&device)?;
    let (warmed_up, rejected) = device::compile_only(&device, || {
        catch_unwind(AssertUnwindSafe(|| on_device(cell, inputs, own, &mut UntilWarm)))
    });
    let result = match warmed_up {
        Ok(result) => result.map(drop),
        Err(payload) if payload.is::<Warm>() => Ok(()),
        Err(payload) => resume_unwind(payload),
    };
    let rejected = kept.rejected().into_iter().chain(rejected);
    let rejected = refuse_rejected(rejected.collect());
    let problems = kept.save_kernels();
    result?;
    rejected?;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WorkloadError::device(problems.join("; "))),
    }
}

/// Fails with the first reason if the compiler rejected kernels.
pub(crate) fn refuse_rejected(errors: Vec<String>) -> Result<(), WorkloadError> {
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

/// Panic payload of [`UntilWarm`].
struct Warm;

/// Observer that stops a cell after its warm-up by unwinding, since workloads cannot exit early in another way.
struct UntilWarm;

impl Observer for UntilWarm {
    fn progress(&mut self, progress: Progress) {
        let warm = match progress.phase {
            Phase::Prepare => false,
            Phase::WarmUp => progress.done == progress.total,
            Phase::Measure | Phase::Evaluate => true,
        };
        if warm {
            // Unlike `panic!`, this does not call the panic hook, which ends the process.
            resume_unwind(Box::new(Warm));
        }
    }
}
