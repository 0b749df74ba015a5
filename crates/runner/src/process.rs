//! Worker processes: start, messages, time limit and termination.

mod child;
mod crash;
mod output;
mod program;
#[cfg(target_os = "linux")]
mod ranks;

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use mantissa_core::{Backend, Status};
use tempfile::TempDir;

#[cfg(target_os = "linux")]
pub(crate) use self::ranks::Gpus;
use self::{
    child::{KILL_TIMEOUT, Worker},
    crash::{ProcessEnd, classify},
    output::{OutputLine, WorkerOutput, parse_line, spawn_reader},
    program::Program,
};
use crate::{
    RunError, Stop,
    executor::{CellResult, Executor},
    exit::{WorkerExit, oom_kills},
    message::{Job, Request},
    progress::ProgressUpdate,
};

/// Time limit for a worker to exit after its final message, before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(10);

/// Time limit for reading the rest of the output after the exit.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Stack size in bytes of the threads that launch kernels through Vulkan. lavapipe compiles shaders on these threads,
/// and Rust's default of 2 MiB is too small for its compiler. 64 MiB were enough in practice. Untouched pages do not
/// use memory.
const VULKAN_STACK: usize = 64 << 20;

/// Environment variable with the number of threads of a worker.
const THREADS: &str = "RAYON_NUM_THREADS";

/// Polling interval for a stop request and for the exit of the worker, while no message arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// First polling interval.
const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Executor that runs each cell as the process `<program> worker`, or as one such process per rank.
pub(crate) struct Workers {
    program: Program,
    /// Command that starts ranks. If empty, `mpirun`.
    #[cfg(target_os = "linux")]
    mpirun: Vec<String>,
    /// GPUs of ranks.
    #[cfg(target_os = "linux")]
    gpus: Gpus,
    stop: Stop,
}

impl Workers {
    /// Creates workers that run this program.
    pub(crate) fn of_this_program(stop: Stop) -> Result<Self, RunError> {
        Ok(Self {
            program: Program::this()?,
            #[cfg(target_os = "linux")]
            mpirun: vec![],
            #[cfg(target_os = "linux")]
            gpus: Gpus::default(),
            stop,
        })
    }

    /// Creates workers that run another program, which has to support the same requests.
    pub(crate) fn of(path: PathBuf, stop: Stop) -> Self {
        Self {
            program: Program::of(path),
            #[cfg(target_os = "linux")]
            mpirun: vec![],
            #[cfg(target_os = "linux")]
            gpus: Gpus::default(),
            stop,
        }
    }

    /// Replaces the command that starts ranks. If empty, `mpirun`.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_mpirun(self, mpirun: Vec<String>) -> Self {
        Self { mpirun, ..self }
    }

    /// Sets the GPUs of ranks.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_gpus(self, gpus: Gpus) -> Self {
        Self { gpus, ..self }
    }

    /// Returns the value of `CUDA_VISIBLE_DEVICES` for a worker. The worker must compute on the sampled device, in whatever order CUDA lists
    /// devices. A peer with several devices sees one GPU per device.
    fn visible_gpus(&self, request: &Request) -> Option<String> {
        let sampled = request.gpu.clone()?;
        #[cfg(target_os = "linux")]
        if !request.peer.is_empty()
            && let Some(gpus) = self.gpus.of_setting(&request.cell.setting)
        {
            return Some(gpus);
        }
        Some(sampled)
    }

    fn spawn(
        &self,
        request: &Request,
        scratch: Option<&Path>,
        current: Option<&Path>,
    ) -> Result<Child, RunError> {
        let mut command = Command::new(self.program.executable());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, self.program.path());
        command
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Start the worker in a process group of its own. Ctrl-C then reaches only the run, which lets the worker finish.
        // Killing the group also ends child processes of the worker.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        if let Some(threads) = request.cell.setting.threads() {
            command.env(THREADS, threads.to_string());
        }
        if let Some(gpus) = self.visible_gpus(request) {
            command.env("CUDA_VISIBLE_DEVICES", gpus);
        }
        if request.cell.setting.backend() == Backend::Vulkan && std::env::var_os("RUST_MIN_STACK").is_none() {
            command.env("RUST_MIN_STACK", VULKAN_STACK.to_string());
        }
        if let Some(scratch) = scratch {
            command.env("TMPDIR", scratch);
        }
        if let Some(folder) = current {
            command.current_dir(folder);
        }
        let mut worker = command.spawn().map_err(RunError::Worker)?;
        if let Some(stdin) = worker.stdin.take() {
            let mut stdin = BufWriter::new(stdin);
            // Ignore the error: a worker that crashes before it reads its request is classified after its exit.
            let _ = serde_json::to_writer(&mut stdin, request).map(|()| stdin.write_all(b"\n"));
        }
        Ok(worker)
    }
}

impl Executor for Workers {
    fn execute(
        &mut self,
        request: &Request,
        timeout: Duration,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        self.run(request, timeout, on_progress)
    }
}

impl Workers {
    /// Runs one worker until it exits. Several workers may run at the same time.
    ///
    /// # Errors
    /// Errors that prevent every cell from running.
    pub(crate) fn run(
        &self,
        request: &Request,
        timeout: Duration,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        // A peer starts the processes of its own ranks.
        let several = request.job == Job::Measure && request.cell.setting.devices() > 1;
        if several && request.peer.is_empty() {
            return self.run_ranks(request, timeout, on_progress);
        }
        let oom_kills_before = oom_kills();
        // The temporary files of the peer's framework are removed after the worker ends, for whatever reason.
        let with_peer = !request.peer.is_empty();
        let scratch = with_peer
            .then(tempfile::tempdir)
            .transpose()
            .map_err(RunError::Worker)?;
        let current = current_folder()?;
        let [scratch, current] = [&scratch, &current].map(|folder| folder.as_ref().map(TempDir::path));
        let worker = Worker(self.spawn(request, scratch, current)?);
        self.supervise(worker, timeout, oom_kills_before, on_progress)
    }

    #[cfg(not(target_os = "linux"))]
    fn run_ranks(
        &self,
        _request: &Request,
        _timeout: Duration,
        _on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let reason = "training on several devices is implemented only for Linux";
        let finished = crate::Finished::without_result(Status::Skipped, reason);
        Ok((CellResult::Finished(Box::new(finished)), vec![]))
    }

    /// Reads the output of a worker until the worker exits or has to be killed. Returns its final message, or,
    /// without a final message, the status and the reason of its end. `oom_kills_before` is [`oom_kills`] before the start.
    fn supervise(
        &self,
        mut worker: Worker,
        timeout: Duration,
        oom_kills_before: Option<u64>,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let (sender, receiver) = mpsc::channel();
        let output = worker.0.stdout.take();
        spawn_reader(output, sender.clone(), parse_line, Some(OutputLine::Closed))
            .and_then(|()| spawn_reader(worker.0.stderr.take(), sender, OutputLine::Other, None))
            .map_err(RunError::Worker)?;
        let start = Instant::now();
        let mut received = WorkerOutput::default();
        let (mut stopped, mut timed_out) = (false, false);
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            // Poll more often at first, to read the memory of a worker before an early crash.
            let interval = POLL_INTERVAL.min(FIRST_POLL_INTERVAL + start.elapsed() / 2);
            match receiver.recv_timeout(left.min(interval)) {
                Ok(OutputLine::Closed) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(line) => {
                    let advance = received.handle(line);
                    if advance.is_some() {
                        received.poll_memory(worker.0.id());
                    }
                    on_progress(advance);
                }
                Err(RecvTimeoutError::Timeout) => {
                    received.poll_memory(worker.0.id());
                    on_progress(None);
                }
            }
            stopped = self.stop.is_immediate();
            timed_out = !stopped && start.elapsed() >= timeout;
            if stopped || timed_out {
                worker.kill();
                break;
            }
            // A child process of the worker may keep the standard output open forever.
            if worker.has_exited() {
                break;
            }
        }
        let exit = worker.wait(EXIT_GRACE, KILL_TIMEOUT).map_err(RunError::Worker)?;
        // Both streams normally end with the worker and its process group. Do not wait for a stream that another process
        // keeps open.
        let end = Instant::now();
        while end.elapsed() < DRAIN_LIMIT
            && let Ok(rest) = receiver.recv_timeout(DRAIN_LIMIT.saturating_sub(end.elapsed()))
        {
            received.handle(rest);
        }
        if stopped {
            // A final message sent before the kill counts.
            received.final_message.get_or_insert(CellResult::Stopped);
        }
        let killed_for_memory = killed_for_memory(oom_kills_before);
        let process_end = exit.map_or(ProcessEnd::CannotBeKilled, ProcessEnd::of);
        if received.final_message.is_none() && process_end == ProcessEnd::Code(WorkerExit::NotWritten as i32)
        {
            return Err(RunError::Samples(received.output.last_lines()));
        }
        let (memory, events) = (received.memory, received.events);
        if timed_out && received.final_message.is_none() {
            let suffix = match process_end {
                ProcessEnd::CannotBeKilled => {
                    "; the process cannot be killed, because a driver call does not return"
                }
                _ => "",
            };
            let reason = format!("killed after {} s, the time limit{suffix}", timeout.as_secs_f64());
            let ended = CellResult::Died {
                status: Status::Timeout,
                reason,
                memory,
                events,
            };
            return Ok((ended, received.output.bytes.into()));
        }
        let ended = received.final_message.unwrap_or_else(|| {
            let (status, reason) = classify(process_end, &received.output.text(), killed_for_memory);
            CellResult::Died {
                status,
                reason,
                memory,
                events,
            }
        });
        Ok((ended, received.output.bytes.into()))
    }
}

/// Returns a temporary folder if the current directory does not exist, because libraries need one. The folder then
/// contains the cache, so other users must not be able to write to it.
fn current_folder() -> Result<Option<TempDir>, RunError> {
    let folder = std::env::current_dir().is_err().then(tempfile::tempdir);
    folder.transpose().map_err(RunError::Worker)
}

/// Returns true if the kernel killed a process for lack of memory since [`oom_kills`] returned `before`.
fn killed_for_memory(before: Option<u64>) -> bool {
    before.zip(oom_kills()).is_some_and(|(before, now)| now > before)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::Signal;

    /// Returns the result of a worker that is a shell script, with a time limit of half a second.
    fn result_of_script(stop: &Stop, script: &str) -> CellResult {
        let mut command = Command::new("sh");
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let worker = Worker(pipes.args(["-c", script]).spawn().unwrap());
        // Wait, so that early output is in the pipe before the first poll.
        std::thread::sleep(Duration::from_millis(500));
        let workers = Workers::of_this_program(stop.clone()).unwrap();
        let limit = Duration::from_millis(500);
        workers.supervise(worker, limit, None, &mut |_| {}).unwrap().0
    }

    #[test]
    fn a_final_message_before_the_kill_counts() {
        const FINAL_MESSAGE: &str = r#"echo '{"refused":"no such thing"}'; sleep 600"#;
        let refused =
            |ended: &CellResult| matches!(ended, CellResult::Refused(reason) if reason == "no such thing");
        let no_stop = Stop::default();
        let ended = result_of_script(&no_stop, FINAL_MESSAGE);
        assert!(refused(&ended), "{ended:?}");
        let ended = result_of_script(&no_stop, "sleep 600");
        assert!(
            matches!(
                &ended,
                CellResult::Died {
                    status: Status::Timeout,
                    ..
                }
            ),
            "{ended:?}"
        );
        let twice = Stop::default();
        (0..2).for_each(|_| twice.request(Signal::Interrupt));
        let ended = result_of_script(&twice, "sleep 600");
        assert!(matches!(&ended, CellResult::Stopped), "{ended:?}");
        let ended = result_of_script(&twice, FINAL_MESSAGE);
        assert!(refused(&ended), "{ended:?}");
    }
}
