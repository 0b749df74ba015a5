//! Compiling the kernels of a run before its first cell, by several processes at the same time.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use mantissa_core::{Backend, Cell, Plan, Status};

use crate::{
    Engine, Progress, ProgressEvent, RunError, RunSettings, Stop, devices,
    message::{Finished, Request},
    process::Workers,
    schedule::Ended,
};

/// Longest time to compile the kernels of one cell.
const LIMIT: Duration = Duration::from_secs(1800);

/// Host memory for each process, in bytes: several compilers at the same time must not exhaust it.
const MEMORY_PER_PROCESS: u64 = 2 << 30;

/// Result of compiling the kernels of a plan.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Precompiled {
    /// Cells whose kernels are compiled.
    pub compiled: usize,
    /// Cells that need something the machine lacks.
    pub skipped: usize,
    /// Cells whose kernels are not compiled, by reason.
    pub failed: BTreeMap<String, usize>,
}

/// Compiles the kernels of all GPU cells of a plan. Nothing is measured.
///
/// # Errors
/// A worker cannot be started, or the run is asked to stop.
pub fn precompile(
    engine: &dyn Engine,
    plan: &Plan,
    settings: &RunSettings,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<Precompiled, RunError> {
    let cells: Vec<&Cell> = plan
        .runnable()
        .filter(|cell| cell.setting.backend() != Backend::Flex && settings.peer.is_empty())
        .collect();
    if cells.is_empty() {
        return Ok(Precompiled::default());
    }
    let workers = Workers::of_this_program(stop.clone())?;
    let gpu = stop
        .with_default_signals(|| devices::gpu(engine, settings.backend))
        .and_then(|gpu| gpu.uuid);
    let request = |cell: &Cell| Request {
        cell: cell.clone(),
        inputs: settings.resolved_inputs(),
        peer: vec![],
        samples: PathBuf::new(),
        gpu: gpu.clone(),
        idle_watts: Err("nothing is measured".to_owned()),
        compile_only: true,
    };
    let (total, processes) = (cells.len(), processes().min(cells.len()));
    let (next, mut result) = (AtomicUsize::new(0), Precompiled::default());
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..processes {
            let (sender, next, cells, workers, request) = (sender.clone(), &next, &cells, &workers, &request);
            scope.spawn(move || {
                while stop.asked().is_none()
                    && let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let ended = workers.run(&request(cell), LIMIT, &mut |_| ());
                    if sender.send(ended.map(|(ended, _)| ended)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        progress.tell(ProgressEvent::Compiling {
            done: 0,
            total,
            processes,
        });
        for (done, ended) in (1..).zip(ended) {
            result.count(ended?);
            progress.tell(ProgressEvent::Compiling {
                done,
                total,
                processes,
            });
        }
        match stop.asked() {
            Some(signal) => Err(RunError::Stopped(signal)),
            None => Ok(result),
        }
    })
}

impl Precompiled {
    fn count(&mut self, ended: Ended) {
        let failure = match ended {
            Ended::Finished(finished) => match *finished {
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
            Ended::Died { reason, .. } | Ended::Refused(reason) => reason,
            Ended::Stopped => return,
        };
        *self.failed.entry(failure).or_default() += 1;
    }
}

/// Returns how many processes compile at the same time: one per core, as far as memory allows.
fn processes() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let by_memory = available_memory().map_or(cores, |bytes| (bytes / MEMORY_PER_PROCESS) as usize);
    cores.min(by_memory).max(1)
}

/// Returns the host memory that is available, in bytes (Linux only).
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
