//! Checks of the candidate kernels of a cell.

use mantissa_core::{
    Accumulator, Axis, AxisValue, Backend, CacheState, Cell, CheckedCandidate, CheckedOperation, Format,
    Kernel, KernelTask, MatmulPrecision, MatmulShape, Precision, Setting, Task, Workload,
};
use mantissa_precision::{Compute, Operation, check, device};

use crate::{
    Inputs, WorkloadError,
    kernel_folder::kernel_folder,
    operations::{kept_operations, operations},
    precompile::{launch_one, refuse_rejected},
};

/// Candidate kernel to check.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelToCheck {
    /// Cell with the setting of the check.
    pub cell: Cell,
    /// Operation that the kernel computes.
    pub operation: CheckedOperation,
    /// Name of the candidate.
    pub candidate: String,
}

/// Returns the candidate kernels of a cell's operations on a GPU with matrix units.
pub fn kernels_to_check(cell: &Cell) -> Vec<KernelToCheck> {
    let backend = cell.setting.backend();
    if backend == Backend::Flex {
        return vec![];
    }
    let mut checks = vec![];
    let mut add = |setting: Cell, operation| {
        for candidate in check::candidates(operation, &Compute::of(&setting.setting)) {
            checks.push(KernelToCheck {
                cell: setting.clone(),
                operation,
                candidate,
            });
        }
    };
    // Candidates that use matrix units fall back to candidates that do not.
    add(
        of_setting(
            backend,
            Precision::True32,
            MatmulPrecision::Highest,
            Accumulator::F32,
        ),
        CheckedOperation::Matmul,
    );
    let all = operations(cell).into_iter().map(|operation| (operation, false));
    let kept = kept_operations(cell)
        .into_iter()
        .map(|operation| (operation, true));
    for (operation, in_f32) in all.chain(kept) {
        let setting = of_cell(cell, in_f32);
        match operation {
            Operation::Matmul | Operation::FewRows => add(setting, CheckedOperation::Matmul),
            Operation::Convolution => {
                add(setting.clone(), CheckedOperation::Convolution);
                add(setting, CheckedOperation::Matmul);
            }
            Operation::FusedAttention => add(setting, CheckedOperation::FusedAttention),
        }
    }
    checks
}

/// Returns a matmul cell with the precision, matmul precision and accumulator of another cell.
fn of_cell(cell: &Cell, in_f32: bool) -> Cell {
    let setting = &cell.setting;
    let precision = match setting.precision().compute() {
        Format::F64 => Precision::True64,
        Format::F32 | Format::Tf32 => Precision::True32,
        _ if in_f32 => Precision::True32,
        Format::Bf16 => Precision::TrueBf16,
        Format::F16 => Precision::True16,
    };
    let (matmul, accumulator) = match precision {
        Precision::True32 => (setting.matmul(), Accumulator::F32),
        Precision::True64 => (MatmulPrecision::Highest, Accumulator::F32),
        _ => (MatmulPrecision::Highest, setting.accumulator()),
    };
    of_setting(setting.backend(), precision, matmul, accumulator)
}

fn of_setting(
    backend: Backend,
    precision: Precision,
    matmul: MatmulPrecision,
    accumulator: Accumulator,
) -> Cell {
    let task = KernelTask {
        kernel: Kernel::Matmul(MatmulShape::SQUARE),
        min_samples: 1,
        max_samples: 1,
        max_seconds: 1.0,
        max_noise: 1.0,
        cache: CacheState::Warm,
    };
    let workload = Workload {
        name: "matmul".to_owned(),
        task: Task::Kernel(task),
    };
    let mut setting = Setting::of(&workload, backend);
    for (axis, name) in [
        (Axis::Precision, precision.name()),
        (Axis::Matmul, matmul.name()),
        (Axis::Accumulator, accumulator.name()),
        (Axis::Fusion, "off"),
    ] {
        setting
            .set(axis, AxisValue::Text(name.to_owned()))
            .expect("matmul workloads have these axes");
    }
    Cell::new("check-kernels", workload, setting, 0)
}

/// Checks a candidate kernel against float64, or only compiles its kernels. Call it in a process of its own.
///
/// # Errors
/// Same as [`run`](crate::run), and any error that the device reports.
pub fn check_kernel(
    cell: &Cell,
    inputs: &Inputs,
    (operation, candidate): (CheckedOperation, &str),
    compile_only: bool,
) -> Result<CheckedCandidate, WorkloadError> {
    let backend = cell.setting.backend();
    // Before the first use of the GPU.
    let kept = device::load_kernels(&kernel_folder(backend, &inputs.cache));
    device::available(backend).map_err(WorkloadError::device)?;
    let device = device::open(backend, false);
    let compute = Compute::of(&cell.setting);
    if !device::supports(cell.setting.precision().parameters(), &device) {
        return Err(WorkloadError::unavailable(format!(
            "this `{backend}` device does not support `{}`",
            cell.setting.precision().parameters()
        )));
    }
    launch_one(&device)?;
    let check =
        || check::check_candidate(operation, compute, candidate, &device).map_err(WorkloadError::device);
    let (seen, rejected) = match compile_only {
        true => device::compile_only(&device, check),
        false => (check(), None),
    };
    drop(kept.save_kernels());
    refuse_rejected(rejected.into_iter().collect())?;
    seen
}
