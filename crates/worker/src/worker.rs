//! Worker process: measures and summarizes one cell, and reports to the parent in JSON lines.

use std::{
    io::{self, Write},
    ops::Range,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use mantissa_core::{Backend, CheckedOperation, Event, EventKind, Phase, Series, SeriesName, Status};
use mantissa_runner::{
    Advance, Finished, Job, MemorySoFar, Message, Request, WorkerExit, is_out_of_memory, oom_kills,
    write_samples,
};
use mantissa_telemetry::{
    Glance, GpuSource, HostMemory, Peaks, Sampler, Source, Throttling, keep_freed_memory,
};
use mantissa_workloads::{
    AllocatorBytes, Observer, Outcome, OwnModel, Progress, TaskMeasurements, WorkloadError,
    peer::{self, Peer},
};

use crate::{
    heap,
    summarise::{Measurements, summarise},
};

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// Progress of the cell of this process. It is sent with every heartbeat, and once more before a panic ends the process.
static SO_FAR: Mutex<Advance> = Mutex::new(Advance {
    phase: Phase::Prepare,
    done: 0,
    total: 0,
    memory: MemorySoFar {
        host: None,
        device: None,
        process: None,
        reserved: None,
        in_use: None,
    },
});

/// Current samples of the sampler.
static SAMPLED: OnceLock<Glance> = OnceLock::new();

/// Runs the request on standard input, with the program's `own` model if requested. Prints nothing but messages on standard output.
pub fn worker(own: Option<&OwnModel>) -> WorkerExit {
    exit_on_panic();
    // A process that was started through a file descriptor is named after its number. On systems without this file, the name is correct.
    let _ = std::fs::write("/proc/self/comm", "mantissa");
    let request: Request = match serde_json::from_reader(io::stdin().lock()) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("{error}");
            return WorkerExit::BadRequest;
        }
    };
    beat();
    if request.cell.setting.backend() == Backend::Flex && request.peer.is_empty() {
        // Must run before other threads create their own arenas. If the C library rejects the setting, steps are slower.
        keep_freed_memory();
    }
    // Use a new thread, because the parent cannot choose the stack size of the main thread.
    let own = own.cloned();
    let working = std::thread::spawn(move || {
        join_thread_pool();
        match execute(&request, own.as_ref()) {
            Ok(message) => {
                send(&message);
                WorkerExit::Done
            }
            Err(error) => {
                eprintln!("`{}`: {error}", request.samples.display());
                WorkerExit::NotWritten
            }
        }
    });
    working.join().unwrap_or(WorkerExit::Panicked)
}

/// Adds this thread to the pool that computes operations on the CPU. Handing a small operation over to another thread and waiting for it takes
/// longer than computing it.
fn join_thread_pool() {
    let one = std::env::var("RAYON_NUM_THREADS").is_ok_and(|threads| threads == "1");
    let several = std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1);
    // With a single thread, other code of the user's program that uses the same pool would wait for this thread.
    if several && !one {
        // The pool is not in use yet in this process. If it were, its existing threads would suffice.
        let _ = rayon::ThreadPoolBuilder::new()
            .use_current_thread()
            .build_global();
    }
}

/// Installs a hook that ends the process on a panic of any thread. burn catches a panic on a device thread, and reading back then returns
/// garbage without an error, so the process must exit before it reports a number.
fn exit_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let text = without_registry(&format!(
            "thread `{}`: {info}",
            thread.name().unwrap_or("unnamed")
        ));
        // Not `eprintln!`: a panic while printing would panic again.
        let _ = writeln!(io::stderr(), "{text}");
        send(&Message::Progress(so_far()));
        if let Some(events) = device_events() {
            send(&Message::Happened(events));
        }
        let exit = if is_out_of_memory(&text) {
            WorkerExit::OutOfMemory
        } else {
            WorkerExit::Panicked
        };
        std::process::exit(exit as i32);
    }));
}

/// Removes the folder of the crate registry from paths, because records must not contain the user's folders.
fn without_registry(text: &str) -> String {
    let shorten = |word: &str| match word.split_once("/registry/src/") {
        Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, path)| path).to_owned(),
        None => word.to_owned(),
    };
    text.split(' ').map(shorten).collect::<Vec<_>>().join(" ")
}

/// Sends heartbeats with the progress to the parent. If the parent has exited, the worker exits.
fn beat() {
    std::thread::spawn(move || {
        let mut sent = vec![];
        loop {
            std::thread::sleep(HEARTBEAT);
            send(&Message::Progress(so_far()));
            if let Some(events) = device_events().filter(|events| *events != sent) {
                send(&Message::Happened(events.clone()));
                sent = events;
            }
        }
    });
}

/// Returns the events of the device so far, without waiting for the device.
fn device_events() -> Option<Vec<Event>> {
    SAMPLED.get().and_then(Glance::events)
}

/// Returns the progress of the cell with the memory peaks sampled so far.
fn so_far() -> Advance {
    let mut advance = *SO_FAR.lock().unwrap_or_else(PoisonError::into_inner);
    let peaks = SAMPLED.get().and_then(Glance::peaks).unwrap_or_default();
    advance.memory = advance.memory.and(memory(peaks));
    advance
}

fn memory(peaks: Peaks) -> MemorySoFar {
    MemorySoFar {
        host: peaks.host,
        device: peaks.device,
        process: peaks.process,
        ..MemorySoFar::default()
    }
}

/// Writes one line. If that fails, the parent has exited and the result is not needed.
fn send(message: &Message) {
    let mut line = serde_json::to_vec(message).expect("messages are serializable");
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    if stdout.write_all(&line).and_then(|()| stdout.flush()).is_err() {
        kill_process_group();
        std::process::exit(WorkerExit::Orphaned as i32);
    }
}

/// Kills the peer process of a worker whose parent has exited. The parent made this process the leader of a group.
fn kill_process_group() {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
        if getpgrp() == getpid() {
            let _ = kill_current_process_group(Signal::KILL);
        }
    }
}

fn execute(request: &Request, own: Option<&OwnModel>) -> io::Result<Message> {
    match &request.job {
        Job::Measure => {}
        Job::Compile => return Ok(compile(request, own)),
        Job::Check {
            operation,
            candidate,
            compile_only,
        } => return Ok(check(request, (*operation, candidate), *compile_only)),
    }
    let kills_before = oom_kills();
    let peer = match request.peer.as_slice() {
        [] => None,
        command => match Peer::start(command) {
            Ok(peer) => Some(peer),
            Err(error) => return Ok(Message::Refused(error.to_string())),
        },
    };
    // Sample the process that computes.
    let peer_id = peer.as_ref().map(Peer::id);
    let mut sources: Vec<Box<dyn Source>> =
        vec![Box::new(peer_id.map_or_else(HostMemory::default, HostMemory::of))];
    if let Some(uuid) = &request.gpu {
        let gpu = GpuSource::open(uuid);
        sources.push(Box::new(match peer_id {
            Some(process) => gpu.of(process),
            None => gpu,
        }));
    }
    let sampler = Sampler::start(sources);
    // This cannot fail, because a process runs one cell.
    let _ = SAMPLED.set(sampler.glance());
    let mut watch = Watch::new(sampler, &SO_FAR);
    let result = match peer {
        Some(peer) => peer::run(&request.cell, &request.inputs, peer, &mut watch),
        None => mantissa_workloads::run(&request.cell, &request.inputs, own, &mut watch),
    };
    let watched = watch.end();
    let finished = match result {
        Ok(outcome) => finish(request, outcome, watched)?,
        Err(WorkloadError::Data(reason) | WorkloadError::Weights(reason)) => {
            return Ok(Message::Refused(reason));
        }
        Err(WorkloadError::Unavailable(reason)) => Finished::without_result(Status::Skipped, &reason),
        Err(error @ WorkloadError::Device(_)) => {
            let reason = error.to_string();
            // The kernel does not report which of the two processes it killed. This process is still running, so it was the peer.
            let kills = kills_before.zip(oom_kills());
            let peer_was_killed = peer_id.is_some() && kills.is_some_and(|(before, now)| now > before);
            let status = if is_out_of_memory(&reason) || peer_was_killed {
                Status::Oom
            } else {
                Status::Failed
            };
            let taken = so_far().memory.and(memory(watched.trace.peaks()));
            Finished {
                events: watched.trace.events(),
                ..Finished::without_result(status, &reason).after(taken)
            }
        }
    };
    Ok(Message::Finished(Box::new(finished)))
}

/// Compiles the kernels of the request's cell.
fn compile(request: &Request, own: Option<&OwnModel>) -> Message {
    let finished = match mantissa_workloads::precompile(&request.cell, &request.inputs, own) {
        Ok(()) => Finished::without_result(Status::Ok, "compiled"),
        Err(WorkloadError::Unavailable(reason)) => Finished::without_result(Status::Skipped, &reason),
        Err(error) => Finished::without_result(Status::Failed, &error.to_string()),
    };
    Message::Finished(Box::new(finished))
}

/// Checks a candidate kernel.
fn check(request: &Request, candidate: (CheckedOperation, &str), compile_only: bool) -> Message {
    let seen = mantissa_workloads::check_kernel(&request.cell, &request.inputs, candidate, compile_only);
    let finished = match seen {
        Ok(seen) => Finished {
            checked: Some(seen),
            ..Finished::without_result(Status::Ok, "checked")
        },
        Err(WorkloadError::Unavailable(reason)) => Finished::without_result(Status::Skipped, &reason),
        Err(error) => Finished::without_result(Status::Failed, &error.to_string()),
    };
    Message::Finished(Box::new(finished))
}

fn finish(request: &Request, mut outcome: Outcome, watched: Watched) -> io::Result<Finished> {
    outcome
        .samples
        .series
        .extend(throttled(&outcome.measured, &watched));
    outcome.samples.series.extend(watched.trace.series());
    outcome.samples.series.extend(watched.allocator_series);
    write_samples(&request.samples, &outcome.samples)?;
    let measured = Measurements {
        outcome: &outcome,
        trace: &watched.trace,
        window: watched.window.clone(),
        idle_watts: &request.idle_watts,
        peaks: watched.peaks,
        allocator: watched.allocator,
        by_peer: !request.peer.is_empty(),
    };
    let metrics = summarise(&request.cell.setting, &measured);
    outcome.events.extend(watched.trace.events());
    let rate = watched.trace.rate(watched.window);
    outcome.events.push(Event {
        kind: EventKind::Sampling,
        step: None,
        value: rate.period_seconds,
        detail: rate.to_string(),
    });
    let (status, reason) = match (untrained(&outcome.measured), outcome.diverged) {
        (Some(reason), _) => (Status::Failed, Some(reason)),
        (None, Some(reason)) => (Status::Diverged, Some(reason)),
        (None, None) => (Status::Ok, None),
    };
    Ok(Finished {
        status,
        reason,
        executed: outcome.executed,
        metrics,
        events: outcome.events,
        data: outcome.data,
        checked: None,
    })
}

/// Returns the reason if a training skipped every optimizer step. Its accuracy is that of the initial weights.
fn untrained(measured: &TaskMeasurements) -> Option<String> {
    let TaskMeasurements::Train {
        skipped_steps,
        windows,
        ..
    } = measured
    else {
        return None;
    };
    let steps = windows.len() as u64;
    (steps > 0 && *skipped_steps == steps).then(|| {
        format!("every optimizer step was skipped: the scaled gradients overflowed in all {steps} steps")
    })
}

/// Returns the series that mark the launches or optimizer steps during which the clock was throttled.
fn throttled(measured: &TaskMeasurements, watched: &Watched) -> impl Iterator<Item = Series> {
    let (windows, of) = match measured {
        TaskMeasurements::Kernel { windows, .. } => (windows, "launch"),
        TaskMeasurements::Train { windows, .. } => (windows, "optimizer step"),
        TaskMeasurements::Evaluate { windows, .. } => (windows, "micro-batch"),
        TaskMeasurements::Generate { windows, .. } => (windows, "text"),
    };
    let (copies, cublas) = match measured {
        TaskMeasurements::Kernel { traffic, cublas, .. } => (
            traffic.as_ref().map(|traffic| &traffic.windows),
            cublas.iter().flatten().next().map(|cublas| &cublas.windows),
        ),
        TaskMeasurements::Train { .. }
        | TaskMeasurements::Evaluate { .. }
        | TaskMeasurements::Generate { .. } => (None, None),
    };
    let copies = copies.and_then(|windows| marks(SeriesName::CopyThrottled, of, windows, watched));
    let cublas = cublas.and_then(|windows| marks(SeriesName::CublasThrottled, of, windows, watched));
    let marked = marks(SeriesName::Throttled, of, windows, watched);
    marked.into_iter().chain(copies).chain(cublas)
}

/// Returns a series with 1 for each window in which the clock was throttled and 0 for the others, or `None` if it never was.
fn marks(name: SeriesName, of: &str, windows: &[Range<Instant>], watched: &Watched) -> Option<Series> {
    let seconds = |moment: Instant| moment.saturating_duration_since(watched.started).as_secs_f64();
    let is_throttled = |window: &Range<Instant>| {
        let throttling = watched
            .trace
            .throttled(seconds(window.start), seconds(window.end));
        matches!(throttling, Throttling::Yes(_))
    };
    windows.iter().any(is_throttled).then(|| {
        let mut series = Series {
            x_name: of.to_owned(),
            ..Series::new(name)
        };
        for (number, window) in (1u32..).zip(windows) {
            series.push(f64::from(number), f64::from(u8::from(is_throttled(window))));
        }
        series
    })
}

/// Observer that records the progress of a workload. It must be cheap, since it is called between timed steps.
struct Watch<'a> {
    sampler: Sampler,
    latest: &'a Mutex<Advance>,
    /// Start of the measured phase, in seconds of the sampler.
    measure_start: Option<f64>,
    /// Last time at which the measured phase ended, in seconds of the sampler.
    measure_end: Option<f64>,
    phase: Phase,
    /// Memory peaks of the work itself, once the workload has reported that its peak is reached.
    peaks: Option<Peaks>,
    allocator: Option<AllocatorBytes>,
    reserved: Series,
    in_use: Series,
}

/// Measurements of the observer after the workload has finished.
struct Watched {
    trace: mantissa_telemetry::Trace,
    /// Time 0 of the trace.
    started: Instant,
    window: Range<f64>,
    peaks: Peaks,
    allocator: Option<AllocatorBytes>,
    allocator_series: Vec<Series>,
}

impl<'a> Watch<'a> {
    fn new(sampler: Sampler, latest: &'a Mutex<Advance>) -> Self {
        Self {
            sampler,
            latest,
            measure_start: None,
            measure_end: None,
            phase: Phase::Prepare,
            peaks: None,
            allocator: None,
            reserved: Series::new(SeriesName::AllocatorReservedBytes),
            in_use: Series::new(SeriesName::AllocatorInUseBytes),
        }
    }

    fn end(self) -> Watched {
        let end = if self.phase == Phase::Measure {
            None
        } else {
            self.measure_end
        };
        let end = end.unwrap_or_else(|| self.sampler.seconds());
        let start = self.measure_start.unwrap_or(end);
        let series = [self.reserved, self.in_use]
            .into_iter()
            .filter(|series| !series.x.is_empty());
        let started = self.sampler.started();
        let trace = self.sampler.stop();
        Watched {
            started,
            window: start..end,
            peaks: self.peaks.unwrap_or_else(|| trace.peaks()),
            allocator: self.allocator,
            allocator_series: series.collect(),
            trace,
        }
    }
}

/// Adds a point. Keeps only the two ends of a constant stretch, because a kernel may be launched a million times.
fn follow(series: &mut Series, x: f64, y: f64) {
    let level = matches!(series.y.as_slice(), [.., Some(a), Some(b)] if *a == y && *b == y);
    match series.x.last_mut() {
        Some(last) if level => *last = x,
        _ => series.push(x, y),
    }
}

impl Observer for Watch<'_> {
    fn progress(&mut self, progress: Progress) {
        let Progress {
            phase,
            done,
            total,
            allocator,
        } = progress;
        let now = self.sampler.seconds();
        if phase == Phase::Measure && self.measure_start.is_none() {
            self.measure_start = Some(now);
        }
        if phase != Phase::Measure && self.phase == Phase::Measure {
            self.measure_end = Some(now);
        }
        if self.phase == Phase::Prepare && phase != Phase::Prepare {
            // Reading and tokenizing the data may take more memory than the model, or none if the data is cached.
            self.sampler.forget_host_peak();
        }
        self.phase = phase;
        if let Some(AllocatorBytes { reserved, in_use }) = allocator {
            if self.peaks.is_none() {
                let peak = self.allocator.get_or_insert(AllocatorBytes { reserved, in_use });
                peak.reserved = peak.reserved.max(reserved);
                peak.in_use = peak.in_use.max(in_use);
            }
            follow(&mut self.reserved, now, reserved as f64);
            follow(&mut self.in_use, now, in_use as f64);
        }
        let so_far = MemorySoFar {
            reserved: self.allocator.map(|peak| peak.reserved),
            in_use: self.allocator.map(|peak| peak.in_use),
            ..MemorySoFar::default()
        };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Advance {
            phase,
            done,
            total,
            memory: so_far,
        };
    }

    fn memory_known(&mut self) {
        self.peaks = Some(self.sampler.peaks());
    }

    fn is_throttled(&self, since: Instant) -> bool {
        let since = since.saturating_duration_since(self.sampler.started());
        self.sampler.is_throttled(since.as_secs_f64())
    }

    fn heap_bytes(&self) -> Option<u64> {
        Some(heap::allocated_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(steps: &[(Phase, Option<u64>)]) -> Watched {
        let latest = Mutex::new(Advance {
            phase: Phase::Prepare,
            done: 0,
            total: 0,
            memory: MemorySoFar::default(),
        });
        let mut watch = Watch::new(Sampler::start(vec![]), &latest);
        for (phase, bytes) in steps {
            let allocator = bytes.map(|in_use| AllocatorBytes {
                reserved: 2 * in_use,
                in_use,
            });
            watch.progress(Progress {
                phase: *phase,
                done: 0,
                total: 1,
                allocator,
            });
            std::thread::sleep(Duration::from_millis(2));
        }
        watch.end()
    }

    #[test]
    fn paths_of_the_registry_begin_with_the_crate() {
        let text = "panicked at /home/me/.cargo/registry/src/index-0123/burn-0.21.0/src/lib.rs:1:2:";
        assert_eq!(without_registry(text), "panicked at burn-0.21.0/src/lib.rs:1:2:");
        assert_eq!(without_registry("out of memory"), "out of memory");
    }

    #[test]
    fn the_window_ends_where_measuring_last_gave_way_to_something_else() {
        use Phase::{Evaluate, Measure, WarmUp};
        let all = watch(&[
            (WarmUp, None),
            (Measure, None),
            (Evaluate, None),
            (Measure, None),
            (Evaluate, None),
        ]);
        let length = all.window.end - all.window.start;
        assert!(
            length >= 0.006,
            "the window must contain three steps of 2 ms: {length}"
        );
        let none = watch(&[(WarmUp, None)]);
        assert_eq!(none.window.start, none.window.end);
    }

    #[test]
    fn allocator_peaks_are_the_largest_readings() {
        let watched = watch(&[
            (Phase::Measure, Some(10)),
            (Phase::Measure, Some(30)),
            (Phase::Measure, Some(20)),
        ]);
        assert_eq!(
            watched.allocator,
            Some(AllocatorBytes {
                reserved: 60,
                in_use: 30
            })
        );
        assert_eq!(watched.allocator_series.len(), 2);
        assert!(watch(&[(Phase::Measure, None)]).allocator_series.is_empty());
    }
}
