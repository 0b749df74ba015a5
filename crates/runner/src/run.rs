//! Starting and resuming runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;
use mantissa_core::{
    Backend, Environment, Fingerprint, MAX_NAME_BYTES, Plan, Profile, SCHEMA_VERSION, SuiteInfo,
    input_difference,
};
use mantissa_telemetry::{GpuSource, HostMemory, Reading, Source};

#[cfg(target_os = "linux")]
use crate::process::Gpus;
use crate::{
    Engine, Progress, RunError, RunFolder, RunSettings, Schedule, Signal, Stop, Violation, check_kernels,
    choose_backend, devices, fingerprint, inputs::InputHashes, ledger::Ledger, process::Workers,
    resource_limits::prepare_threads, schedule::Stopped,
};

/// Parameters of a new run.
#[derive(Debug)]
pub struct Start {
    /// Plan to execute; see [`planned`].
    pub plan: Plan,
    /// Settings of the run.
    pub settings: RunSettings,
    /// Contents of the suites by name, for copies in the run folder.
    pub suites: BTreeMap<String, String>,
    /// Run folder. Absent: `reports/<UTC time>-<name>`.
    pub out: Option<PathBuf>,
    /// Name for the default run folder.
    pub name: String,
    /// Command line, for `environment.json`.
    pub command: Vec<String>,
    /// Program that runs the workers. Absent: this one.
    pub program: Option<PathBuf>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Finish {
    /// Path of the run folder.
    pub path: PathBuf,
    /// Violated expectations of the suites.
    pub violations: Vec<Violation>,
    /// Suites whose cells were all skipped.
    pub skipped_suites: Vec<SkippedSuite>,
    /// True if every cell of the run was skipped.
    pub ran_nothing: bool,
    /// Signal that stopped the run before all cells were done; absent if the run is complete.
    pub stopped: Option<Stopped>,
}

/// Suite whose cells were all skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedSuite {
    /// Name of the suite.
    pub suite: String,
    /// Reasons with the number of cells skipped for each, the most frequent first.
    pub reasons: Vec<(String, usize)>,
    /// True if the machine lacks something that a cell requires. False if the suite or the command line requests
    /// something impossible.
    pub machine_lacks: bool,
}

impl SkippedSuite {
    fn all(plan: &Plan, ledger: &Ledger) -> Vec<Self> {
        let skipped_suite = |suite: &SuiteInfo| {
            let cells = plan
                .cells
                .iter()
                .filter(|planned| planned.cell.suite == suite.name);
            let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
            let mut machine_lacks = false;
            for planned in cells {
                let reason = ledger.skipped(&planned.cell)?;
                *reasons.entry(reason).or_default() += 1;
                // A worker skips a cell only if this machine cannot run it.
                machine_lacks |= planned.skip.is_none() || reason.starts_with(NOT_AVAILABLE);
            }
            let mut reasons: Vec<(String, usize)> = reasons
                .into_iter()
                .map(|(reason, cells)| (reason.to_owned(), cells))
                .collect();
            reasons.sort_by_key(|(_, cells)| std::cmp::Reverse(*cells));
            (!reasons.is_empty()).then(|| Self {
                suite: suite.name.clone(),
                reasons,
                machine_lacks,
            })
        };
        plan.suites.iter().filter_map(skipped_suite).collect()
    }
}

/// Prefix of the reason for skipping a cell whose backend is not available on this machine.
const NOT_AVAILABLE: &str = "backend `";

/// Returns the default number of repeats of a cell. A smoke run only checks that everything works. A standard run needs
/// several processes for a confidence interval. A full run has the size used in the articles that its suite reproduces,
/// and these articles use one seed each.
pub fn default_repeats(profile: Profile) -> u32 {
    match profile {
        Profile::Smoke | Profile::Full => 1,
        Profile::Standard => 3,
    }
}

/// Marks cells of a plan as skipped if their backend is not available on this machine.
pub fn planned(engine: &dyn Engine, mut plan: Plan) -> Plan {
    let mut availability = BTreeMap::new();
    for planned in plan.cells.iter_mut().filter(|planned| planned.skip.is_none()) {
        let backend = planned.cell.setting.backend();
        let reason = availability
            .entry(backend)
            .or_insert_with(|| engine.available(backend).err());
        planned.skip = reason
            .as_ref()
            .map(|reason| format!("{NOT_AVAILABLE}{backend}` is not available: {reason}"));
    }
    plan
}

/// Creates a run folder and executes the plan until it is done or `stop` is requested.
///
/// # Errors
/// Errors that prevent the run from starting or continuing.
pub fn start(
    engine: &dyn Engine,
    start: Start,
    stop: Stop,
    progress: &mut dyn Progress,
) -> Result<Finish, RunError> {
    let now = timestamp(SystemTime::now())?; // the wall clock is read only here
    start.settings.check_paths()?;
    let default = || Path::new("reports").join(format!("{}-{}", now.strftime("%Y%m%dT%H%M%SZ"), start.name));
    let path = start.out.clone().unwrap_or_else(default);
    prepare_threads();
    let peer = peer_name(engine, &start.settings.peer, &stop)?;
    // Drivers and other programs may hang, so signals must end the program here.
    let (missing, machine) = stop.with_default_signals(|| {
        let gpu = devices::gpu(engine, start.settings.backend);
        let uuid = gpu.as_ref().and_then(|gpu| gpu.uuid.clone());
        let missing = missing_telemetry(start.settings.backend, uuid.as_deref());
        (
            missing,
            fingerprint_of_program(fingerprint(gpu), start.program.as_deref()),
        )
    });
    let environment = Environment {
        schema: SCHEMA_VERSION,
        started: now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        command: start.command,
        backend: start.settings.backend,
        missing,
        fingerprint: Fingerprint {
            peer: peer.clone(),
            ..machine
        },
    };
    let folder = RunFolder::create(&path, start.plan, start.settings, &start.suites, environment)?;
    execute(engine, folder, start.program, peer, stop, progress)
}

/// Changes of a resumed run, which are stored in its folder.
#[derive(Debug, Clone, Default)]
pub struct ResumeChanges {
    /// Number of processes per cell, if fewer are planned.
    pub repeats: Option<u32>,
    /// Command that starts ranks, if the run does not have one. If empty, there is no change.
    pub mpirun: Vec<String>,
}

/// Runs the missing cells of an earlier run according to the plan in its folder, with some changes. Calls `on_truncated` if the last record
/// was incomplete and has been removed.
///
/// # Errors
/// The number of processes is smaller than planned; the run has another command that starts ranks; errors that prevent the run from
/// continuing.
pub fn resume(
    engine: &dyn Engine,
    path: &Path,
    changes: &ResumeChanges,
    stop: Stop,
    progress: &mut dyn Progress,
    on_truncated: &mut dyn FnMut(),
) -> Result<Finish, RunError> {
    prepare_threads();
    let (mut folder, was_truncated) = RunFolder::open(path)?;
    if was_truncated {
        on_truncated();
    }
    choose_backend(engine, Some(folder.settings.backend))?;
    if let Some(repeats) = changes.repeats {
        folder.increase_repeats(repeats)?;
    }
    folder.store_mpirun(&changes.mpirun)?;
    let peer = peer_name(engine, &folder.settings.peer, &stop)?;
    execute(engine, folder, None, peer, stop, progress)
}

fn execute(
    engine: &dyn Engine,
    mut folder: RunFolder,
    program: Option<PathBuf>,
    peer: Option<String>,
    stop: Stop,
    progress: &mut dyn Progress,
) -> Result<Finish, RunError> {
    let input_hashes =
        stop.with_default_signals(|| InputHashes::of(&folder.settings, folder.plan.runnable()))?;
    for cell in folder.plan.runnable() {
        let before = folder.ledger().inputs_of(cell);
        if let Some(differs) = input_difference(before, Some(&input_hashes.of_cell(cell))) {
            return Err(RunError::Input(format!(
                "the input files of `{}` have changed: {differs}\n  hint: restore the files, or start a new run",
                folder.path().display()
            )));
        }
    }
    // A run may be resumed on another machine, so each record contains the fingerprint of its machine.
    let used: BTreeSet<Backend> = folder
        .plan
        .runnable()
        .map(|cell| cell.setting.backend())
        .collect();
    let fingerprints = stop.with_default_signals(|| {
        let used = used.into_iter().map(|backend| {
            let fingerprint =
                fingerprint_of_program(fingerprint(devices::gpu(engine, backend)), program.as_deref());
            let peer = peer.clone();
            let dropout_masks = fingerprint.dropout_masks.clone().filter(|_| peer.is_none());
            let fingerprint = Fingerprint {
                peer,
                dropout_masks,
                ..fingerprint
            };
            (backend, fingerprint)
        });
        used.collect()
    });
    if program.is_none() {
        check_kernels(engine, &folder.plan, &folder.settings, &stop, progress)?;
    }
    let workers = match program {
        Some(program) => Workers::of(program, stop.clone()),
        None => Workers::of_this_program(stop.clone())?,
    };
    // Other systems skip cells with several devices.
    #[cfg(target_os = "linux")]
    let workers = workers
        .with_mpirun(folder.settings.mpirun.clone())
        .with_gpus(stop.with_default_signals(|| Gpus::of_plan(engine, &folder.plan)));
    let mut workers = workers;
    let schedule = Schedule::new(&mut folder, fingerprints, stop).with_inputs(input_hashes);
    let stopped = schedule.run(&mut workers, progress)?;
    let skipped_suites = SkippedSuite::all(&folder.plan, folder.ledger());
    Ok(Finish {
        path: folder.path().to_owned(),
        violations: folder.ledger().violations(),
        ran_nothing: folder
            .plan
            .cells
            .iter()
            .all(|planned| folder.ledger().skipped(&planned.cell).is_some()),
        skipped_suites,
        stopped,
    })
}

/// Converts a time to UTC.
///
/// # Errors
/// The year has more than four digits.
fn timestamp(now: SystemTime) -> Result<Timestamp, RunError> {
    Timestamp::try_from(now)
        .map_err(|error| RunError::Input(format!("the clock of this machine is wrong: {error}")))
}

/// Returns the name of the framework of a peer.
fn peer_name(engine: &dyn Engine, peer: &[String], stop: &Stop) -> Result<Option<String>, RunError> {
    if peer.is_empty() {
        return Ok(None);
    }
    match engine.peer_name(peer, &|| stop.signal().is_some())? {
        Some(name) => match name.len() <= MAX_NAME_BYTES {
            true => Ok(Some(name)),
            false => Err(RunError::Input(format!(
                "the name of the peer has {} bytes; the maximum is {MAX_NAME_BYTES}",
                name.len()
            ))),
        },
        None => Err(RunError::Stopped(stop.signal().unwrap_or(Signal::Interrupt))),
    }
}

/// Returns the fingerprint of a program on this machine. Without a `program`, returns that of this program.
fn fingerprint_of_program(machine: Fingerprint, program: Option<&Path>) -> Fingerprint {
    let Some(program) = program else {
        return machine;
    };
    match crate::ProgramInfo::of(program) {
        Some(about) => about.on(machine),
        None => Fingerprint {
            revision: None,
            program: None,
            ..machine
        },
    }
}

/// Returns the telemetry that is not available on this machine, each with its reason.
fn missing_telemetry(backend: Backend, uuid: Option<&str>) -> Vec<String> {
    let mut reading = Reading::default();
    let mut host = HostMemory::default();
    host.read(&mut reading);
    let mut missing = host.missing();
    match (backend, uuid) {
        (Backend::Flex, _) => {
            missing.push("energy, clocks, device memory: not sampled on the CPU backend".into())
        }
        (Backend::Vulkan, _) => {
            missing.push("energy, clocks, device memory: NVML is queried for cuda only".into())
        }
        (Backend::Cuda, Some(uuid)) => {
            let mut gpu = GpuSource::open(uuid);
            gpu.read(&mut reading);
            // Leave out process memory: this process does not compute, so the driver does not list it. The workers detect
            // if the driver lists processes.
            missing.extend(
                gpu.missing()
                    .into_iter()
                    .filter(|reason| !reason.starts_with("process memory")),
            );
        }
        (Backend::Cuda, None) => {
            let reason = mantissa_telemetry::unavailable().unwrap_or("it does not list the device");
            missing.push(format!("NVML: {reason}"));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_beyond_the_year_9999_is_an_error() {
        let year_10000 = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        let error = timestamp(year_10000).unwrap_err().to_string();
        assert!(error.contains("the clock of this machine is wrong"), "{error}");
        assert!(timestamp(SystemTime::UNIX_EPOCH).is_ok());
    }
}
