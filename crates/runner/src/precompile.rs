//! Compilation of the kernels of a run before its first cell, in several processes at the same time.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use mantissa_core::{Backend, Cell, Plan, Status};

use crate::{
    Engine, Progress, RunError, RunSettings, Stop, devices,
    executor::CellResult,
    kernel_checks::cuda_kernels_to_check,
    message::{Finished, Job, Request},
    process::Workers,
    side_by_side::run_side_by_side,
};

/// Time limit for compiling the kernels of one cell.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(1800);

/// Result of compiling the kernels of a plan.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Precompiled {
    /// Number of cells and kernel checks whose kernels are compiled.
    pub compiled: usize,
    /// Number of cells and checks that were skipped because the machine lacks something.
    pub skipped: usize,
    /// Number of cells and checks whose compilation failed, by reason.
    pub failed: BTreeMap<String, usize>,
}

/// Compiles the kernels of all GPU cells of a plan, and those of the [kernel checks](crate::check_kernels). Nothing is measured.
///
/// # Errors
/// A worker cannot be started, or the run is stopped.
pub fn precompile(
    engine: &dyn Engine,
    plan: &Plan,
    settings: &RunSettings,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<Precompiled, RunError> {
    let gpu = stop.with_default_signals(|| devices::gpu(engine, settings.backend));
    let gpu = gpu.and_then(|gpu| gpu.uuid);
    let request = |cell: Cell, job| Request {
        inputs: settings.resolved_inputs_of(&cell.suite),
        cell,
        save_weights: false,
        peer: vec![],
        samples: PathBuf::new(),
        gpu: gpu.clone(),
        own_gpu: None,
        idle_watts: Err("nothing is measured".to_owned()),
        job,
    };
    let cells = plan
        .runnable()
        .filter(|cell| cell.setting.backend() != Backend::Flex && settings.peer.is_empty());
    let cells = cells.map(|cell| request(cell.clone(), Job::Compile));
    let checks = cuda_kernels_to_check(engine, plan, settings)
        .into_iter()
        .map(|check| {
            let job = Job::Check {
                operation: check.operation,
                candidate: check.candidate,
                compile_only: true,
            };
            request(check.cell, job)
        });
    let requests: Vec<Request> = cells.chain(checks).collect();
    let mut result = Precompiled::default();
    if requests.is_empty() {
        return Ok(result);
    }
    let workers = Workers::of_this_program(stop.clone())?;
    for ended in run_side_by_side(
        "compiling kernels",
        (&workers, stop),
        &requests,
        COMPILE_TIMEOUT,
        progress,
    )? {
        result.count(ended);
    }
    Ok(result)
}

impl Precompiled {
    fn count(&mut self, ended: CellResult) {
        let failure = match ended {
            CellResult::Finished(finished) => match *finished {
                Finished {
                    status: Status::Ok, ..
                } => {
                    self.compiled += 1;
                    return;
                }
                Finished {
                    status: Status::Skipped,
                    ..
                } => {
                    self.skipped += 1;
                    return;
                }
                Finished { reason, .. } => reason.unwrap_or_default(),
            },
            CellResult::Died { reason, .. } | CellResult::Refused(reason) => reason,
            CellResult::Stopped => return,
        };
        *self.failed.entry(failure).or_default() += 1;
    }
}
