//! Checks of candidate kernels against float64 before the first cell of a run, each in its own process.
//!
//! On an untested GPU, a kernel can compile and launch, but return wrong results. The autotuner would choose such a
//! kernel if it is fast.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use mantissa_core::{
    Backend, CheckVerdict, KernelCheck, Plan, Status, UNCHECKED_KERNELS, read_text, write_whole,
};

use crate::{
    Engine, KernelToCheck, Progress, RunError, RunSettings, Stop, devices,
    executor::CellResult,
    message::{Finished, Job, Request},
    process::Workers,
    side_by_side::run_side_by_side,
};

/// Maximum time for the check of one candidate, including compilation. If the cells of the plan have a shorter time limit, that
/// limit applies.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum size of the file with the checks, in bytes.
const MAX_CHECKS_BYTES: u64 = 16 << 20;

/// Returns the candidate kernels of a plan's CUDA cells, each once.
pub(crate) fn cuda_kernels_to_check(
    engine: &dyn Engine,
    plan: &Plan,
    settings: &RunSettings,
) -> Vec<KernelToCheck> {
    let mut checks = BTreeMap::new();
    let cells = plan
        .runnable()
        .filter(|cell| cell.setting.backend() == Backend::Cuda && settings.peer.is_empty());
    for check in cells.flat_map(|cell| engine.kernels_to_check(cell)) {
        let key = (check.operation, check.setting(), check.candidate.clone());
        checks.entry(key).or_insert(check);
    }
    checks.into_values().collect()
}

/// Returns the checks in a folder of the kernel cache. The list is empty if the file is missing or invalid.
pub fn checks_in(folder: &Path) -> Vec<KernelCheck> {
    let text = read_text(&folder.join(KernelCheck::FILE), MAX_CHECKS_BYTES).ok();
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// Checks those candidate kernels of a plan's CUDA cells that were not yet checked with this GPU, driver and program.
/// Returns the checks of all of the plan's candidates, including earlier ones.
///
/// # Errors
/// A worker cannot be started, the results cannot be written, or the run is stopped.
pub fn check_kernels(
    engine: &dyn Engine,
    plan: &Plan,
    settings: &RunSettings,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<Vec<KernelCheck>, RunError> {
    if std::env::var_os(UNCHECKED_KERNELS).is_some() {
        return Ok(vec![]);
    }
    let wanted = cuda_kernels_to_check(engine, plan, settings);
    if wanted.is_empty() {
        return Ok(vec![]);
    }
    let folder = engine.kernel_folder(Backend::Cuda, &settings.resolved_inputs().cache);
    let gpu = stop.with_default_signals(|| devices::gpu(engine, Backend::Cuda));
    let (uuid, driver) = gpu.map_or((None, None), |gpu| (gpu.uuid, gpu.driver));
    let mut checks = checks_in(&folder);
    // The folder is per CUDA version of the driver. Drivers of the same CUDA version may translate the same kernel differently.
    checks.retain(|done| done.driver == driver);
    let is_checked = |check: &KernelToCheck| {
        checks.iter().any(|done| {
            (done.operation, &done.setting, &done.candidate)
                == (check.operation, &check.setting(), &check.candidate)
        })
    };
    let missing: Vec<KernelToCheck> = wanted
        .iter()
        .filter(|check| !is_checked(check))
        .cloned()
        .collect();
    if !missing.is_empty() {
        let limits = plan.suites.iter().map(|suite| suite.timeout_seconds);
        let limit = Duration::try_from_secs_f64(limits.fold(0.0, f64::max))
            .unwrap_or(CHECK_TIMEOUT)
            .min(CHECK_TIMEOUT);
        let added = run_checks(&missing, (settings, limit), uuid, stop, progress)?;
        checks.extend(added.into_iter().map(|check| KernelCheck {
            driver: driver.clone(),
            ..check
        }));
        let path = folder.join(KernelCheck::FILE);
        let text = serde_json::to_vec_pretty(&checks).expect("kernel checks are serializable");
        let written = fs::create_dir_all(&folder).and_then(|()| write_whole(&path, &text));
        written.map_err(|source| RunError::Io { path, source })?;
    }
    checks.retain(|done| {
        wanted.iter().any(|check| {
            (done.operation, &done.setting, &done.candidate)
                == (check.operation, &check.setting(), &check.candidate)
        })
    });
    Ok(checks)
}

fn run_checks(
    missing: &[KernelToCheck],
    (settings, limit): (&RunSettings, Duration),
    gpu: Option<String>,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<Vec<KernelCheck>, RunError> {
    let request = |check: &KernelToCheck| Request {
        cell: check.cell.clone(),
        inputs: settings.resolved_inputs(),
        save_weights: false,
        peer: vec![],
        samples: PathBuf::new(),
        gpu: gpu.clone(),
        own_gpu: None,
        idle_watts: Err("nothing is measured".to_owned()),
        job: Job::Check {
            operation: check.operation,
            candidate: check.candidate.clone(),
            compile_only: false,
        },
    };
    let requests: Vec<Request> = missing.iter().map(request).collect();
    let workers = Workers::of_this_program(stop.clone())?;
    let ended = run_side_by_side("checking kernels", (&workers, stop), &requests, limit, progress)?;
    Ok(missing
        .iter()
        .zip(ended)
        .map(|(check, ended)| check_result(check, ended))
        .collect())
}

/// Converts the result of a worker process to the result of its check.
fn check_result(check: &KernelToCheck, ended: CellResult) -> KernelCheck {
    let (operation, setting, candidate) = (check.operation, check.setting(), check.candidate.clone());
    let failure = match ended {
        CellResult::Finished(finished) => match *finished {
            Finished {
                checked: Some(checked),
                ..
            } => return KernelCheck::of(operation, setting, candidate, checked),
            Finished {
                status: Status::Skipped,
                reason,
                ..
            } => (CheckVerdict::Refused, reason.unwrap_or_default()),
            Finished { reason, .. } => (CheckVerdict::Crashed, reason.unwrap_or_default()),
        },
        CellResult::Died {
            status: Status::Timeout,
            reason,
            ..
        } => (CheckVerdict::Timeout, reason),
        CellResult::Died { reason, .. } | CellResult::Refused(reason) => (CheckVerdict::Crashed, reason),
        CellResult::Stopped => (CheckVerdict::Crashed, "stopped".to_owned()),
    };
    KernelCheck::failed(operation, setting, candidate, failure)
}
