//! Parallel execution of workers for work that is not measured.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::{
    Progress, ProgressEvent, RunError, Stop, executor::CellResult, message::Request, process::Workers,
};

/// Host memory that is assumed for each process, in bytes. This assumption limits the number of parallel compilers, so
/// that they do not exhaust the memory.
const MEMORY_PER_PROCESS: u64 = 2 << 30;

/// Runs a worker for each request, in parallel on the available cores. Returns the results in the order of the
/// requests. `what` is the name of the step in progress events.
///
/// # Errors
/// A worker cannot be started, or the run is stopped.
pub(crate) fn run_side_by_side(
    what: &'static str,
    (workers, stop): (&Workers, &Stop),
    requests: &[Request],
    limit: Duration,
    progress: &mut dyn Progress,
) -> Result<Vec<CellResult>, RunError> {
    let (total, processes) = (requests.len(), processes().min(requests.len()));
    let next = AtomicUsize::new(0);
    let mut all: Vec<Option<CellResult>> = Vec::new();
    all.resize_with(total, || None);
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..processes {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(request) = requests.get(index).filter(|_| stop.signal().is_none()) else {
                        return;
                    };
                    let ended = workers.run(request, limit, &mut |_| ());
                    if sender.send((index, ended.map(|(ended, _)| ended))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut report = |done| {
            progress.on_event(ProgressEvent::Preparing {
                what,
                done,
                total,
                processes,
            });
        };
        report(0);
        for (done, (index, ended)) in (1..).zip(ended) {
            all[index] = Some(ended?);
            report(done);
        }
        Ok::<(), RunError>(())
    })?;
    match stop.signal() {
        Some(signal) => Err(RunError::Stopped(signal)),
        None => Ok(all.into_iter().flatten().collect()),
    }
}

/// Returns the number of parallel processes: one per core, limited by the available memory.
fn processes() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let by_memory = available_memory().map_or(cores, |bytes| (bytes / MEMORY_PER_PROCESS) as usize);
    cores.min(by_memory).max(1)
}

/// Returns the available host memory in bytes (Linux only).
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
