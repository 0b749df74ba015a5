//! Checks of the candidate kernels of a cell.

use mantissa_core::{
    Accumulator, Axis, AxisValue, Backend, CacheState, Cell, CheckedCandidate, CheckedOperation, Format,
    Kernel, KernelTask, MatmulPrecision, MatmulShape, Precision, Setting, Task, Workload,
};
use mantissa_precision::{Compute, Operation, check, device};

use crate::{
    Inputs, WorkloadError,
    kernel_folder::kernel_folder,
    operations::{f32_operations, operations},
    precompile::{fail_if_rejected, launch_one},
};

/// Candidate kernel to check: one of the implementations of an operation among which the autotuner selects.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelToCheck {
    /// Cell with the setting of the check.
    pub cell: Cell,
    /// Operation that the kernel computes.
    pub operation: CheckedOperation,
    /// Name of the candidate.
    pub candidate: String,
}

/// Returns the candidate kernels of a cell's operations on a GPU; empty for a cell on the CPU.
pub fn kernels_to_check(cell: &Cell) -> Vec<KernelToCheck> {
    let backend = cell.setting.backend();
    if backend == Backend::Flex {
        return vec![];
    }
    let mut checks = vec![];
    let mut add = |cell: Cell, operation| {
        for candidate in check::candidates(operation, &Compute::of(&cell.setting)) {
            checks.push(KernelToCheck {
                cell: cell.clone(),
                operation,
                candidate,
            });
        }
    };
    // Always add the matmul candidates of `matmul=highest` in f32. They do not use matrix units. Candidates that use matrix units
    // fall back to these.
    add(
        matmul_cell(
            backend,
            Precision::True32,
            MatmulPrecision::Highest,
            Accumulator::F32,
        ),
        CheckedOperation::Matmul,
    );
    let all = operations(cell).into_iter().map(|operation| (operation, false));
    let in_f32 = f32_operations(cell)
        .into_iter()
        .map(|operation| (operation, true));
    for (operation, in_f32) in all.chain(in_f32) {
        let check_cell = matmul_cell_like(cell, in_f32);
        match operation {
            Operation::Matmul | Operation::FewRows => add(check_cell, CheckedOperation::Matmul),
            Operation::Convolution => {
                add(check_cell.clone(), CheckedOperation::Convolution);
                add(check_cell, CheckedOperation::Matmul);
            }
            Operation::FusedAttention => add(check_cell, CheckedOperation::FusedAttention),
        }
    }
    checks
}

/// Returns a matmul cell that computes like the matmuls of a cell, or, if `in_f32`, like the layers that the cell keeps in f32. It stores its
/// operands in the compute format: the matmul cell of `bf16-mixed` is `bf16-true`.
fn matmul_cell_like(cell: &Cell, in_f32: bool) -> Cell {
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
    matmul_cell(setting.backend(), precision, matmul, accumulator)
}

fn matmul_cell(
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

/// Checks a candidate kernel against float64, or only compiles it. Call this function in a new process.
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
    // Load the kernels before the first use of the GPU.
    let kernel_cache = device::load_kernels(&kernel_folder(backend, &inputs.cache));
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
    let (result, rejected) = match compile_only {
        true => device::compile_only(&device, check),
        false => (check(), None),
    };
    drop(kernel_cache.save_kernels());
    fail_if_rejected(rejected.into_iter().collect())?;
    result
}
