//! Worker processes: start, messages, time limit, termination, and classification of crashes.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use mantissa_core::{Backend, Event, Status, open_own_program};
use tempfile::TempDir;

use crate::{
    RunError, Stop,
    exit::{WorkerExit, is_out_of_memory, oom_kills},
    message::{MemorySoFar, Message, Request},
    schedule::{CellResult, Executor, ProgressUpdate},
};

/// Time limit for a worker to exit after its final message, before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Time limit for a killed worker to exit. A process that is stuck in a driver call cannot be killed.
const ENDING: Duration = Duration::from_secs(5);

/// Time limit for reading the rest of the output after the exit.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Maximum length of a message in bytes. A longer line is split and treated as output.
const LONGEST_MESSAGE: u64 = 16 << 20;

/// Maximum size of the output that is kept of a worker, in bytes: its last part, which is enough for any backtrace.
const KEPT_OUTPUT: usize = 1 << 20;

/// Stack size in bytes of the threads that launch kernels through Vulkan. lavapipe compiles shaders on these threads
/// and overflows the 2 MiB of Rust. 64 MiB were enough; untouched pages cost nothing.
const VULKAN_STACK: usize = 64 << 20;

/// Number of lines of output in a reason.
const REASON_LINES: usize = 4;

/// Polling interval for a stop request and for the exit of the worker, while no message arrives.
const LOOK: Duration = Duration::from_millis(100);

/// First polling interval.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// Runs every cell as `<program> worker`.
pub(crate) struct Workers {
    program: Program,
    stop: Stop,
}

/// Program that stays the same during a run, even if a build replaces its file.
struct Program {
    path: PathBuf,
    /// Open file of the program at the start of the run. Without one, the system resolves the path at each start.
    file: Option<File>,
}

impl Program {
    /// Returns a path that executes the open file.
    fn executable(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            match &self.file {
                Some(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into(),
                None => self.path.clone(),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = &self.file;
            self.path.clone()
        }
    }
}

impl Workers {
    /// Creates workers that run this program.
    pub(crate) fn of_this_program(stop: Stop) -> Result<Self, RunError> {
        let program = Program {
            path: std::env::current_exe().map_err(RunError::Worker)?,
            file: Some(open_own_program().map_err(RunError::Worker)?),
        };
        Ok(Self { program, stop })
    }

    /// Creates workers that run another program, which has to support the same requests.
    pub(crate) fn of(path: PathBuf, stop: Stop) -> Self {
        let program = Program {
            file: File::open(&path).ok(),
            path,
        };
        Self { program, stop }
    }

    fn spawn(
        &self,
        request: &Request,
        scratch: Option<&Path>,
        current: Option<&Path>,
    ) -> Result<Child, RunError> {
        let mut command = Command::new(self.program.executable());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, &self.program.path);
        command
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C must reach only the run, which lets the worker finish. The process group also ends child processes of
        // the worker.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        if let Some(uuid) = &request.gpu {
            // The worker must compute on the sampled device, in whatever order CUDA lists devices.
            command.env("CUDA_VISIBLE_DEVICES", uuid);
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
        if let Some(mut stdin) = worker.stdin.take() {
            // The exit of a worker that crashed before it read its request is classified later.
            let _ = serde_json::to_writer(&mut stdin, request).map(|()| stdin.write_all(b"\n"));
        }
        Ok(worker)
    }
}

/// Output of a worker, as received by the reader threads.
enum OutputLine {
    Message(Message),
    Other(Vec<u8>),
    /// The worker closed its standard output.
    Closed,
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
    /// Runs one worker until it exits. Several may run at the same time.
    ///
    /// # Errors
    /// Errors that prevent every cell from running.
    pub(crate) fn run(
        &self,
        request: &Request,
        timeout: Duration,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let deaths_before = oom_kills();
        // Temporary files for another framework are removed with the worker, however it ends.
        let with_peer = !request.peer.is_empty();
        let scratch = with_peer
            .then(tempfile::tempdir)
            .transpose()
            .map_err(RunError::Worker)?;
        // Libraries need a current directory. It contains the cache, so other users must not be able to write to it.
        let current = std::env::current_dir().is_err().then(tempfile::tempdir);
        let current = current.transpose().map_err(RunError::Worker)?;
        let [scratch, current] = [&scratch, &current].map(|folder| folder.as_ref().map(TempDir::path));
        let worker = Worker(self.spawn(request, scratch, current)?);
        self.attend(worker, timeout, deaths_before, on_progress)
    }

    /// Reads the output of a worker until it exits or has to be killed, and classifies its end. `deaths_before` is the
    /// number of processes that the kernel had killed for memory before the start.
    fn attend(
        &self,
        mut worker: Worker,
        timeout: Duration,
        deaths_before: Option<u64>,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let (sender, receiver) = mpsc::channel();
        let output = worker.0.stdout.take();
        listen(output, sender.clone(), parse, Some(OutputLine::Closed))
            .and_then(|()| listen(worker.0.stderr.take(), sender, OutputLine::Other, None))
            .map_err(RunError::Worker)?;
        let start = Instant::now();
        let mut received = WorkerOutput::default();
        let (mut stopped, mut out_of_time) = (false, false);
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            // Poll more often at first to get the memory of a worker that crashes early.
            let look = LOOK.min(FIRST_POLL + start.elapsed() / 2);
            match receiver.recv_timeout(left.min(look)) {
                Ok(OutputLine::Closed) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(line) => {
                    let advance = received.handle(line);
                    if advance.is_some() {
                        received.poll_memory(&worker.0);
                    }
                    on_progress(advance);
                }
                Err(RecvTimeoutError::Timeout) => {
                    received.poll_memory(&worker.0);
                    on_progress(None);
                }
            }
            stopped = self.stop.at_once();
            out_of_time = !stopped && start.elapsed() >= timeout;
            if stopped || out_of_time {
                worker.end();
                break;
            }
            // A child of the worker may keep its standard output open forever.
            if worker.is_gone() {
                break;
            }
        }
        let exit = worker.wait(GRACE, ENDING).map_err(RunError::Worker)?;
        // Both streams end with the worker and its group. Do not wait for a stream that another process keeps open.
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
        let killed_for_memory = deaths_before
            .zip(oom_kills())
            .is_some_and(|(before, now)| now > before);
        let death = exit.map_or(Death::Never, Death::of);
        if received.final_message.is_none() && death == Death::Code(WorkerExit::NotWritten as i32) {
            return Err(RunError::Samples(received.output.last_lines()));
        }
        let (memory, events) = (received.memory, received.events);
        if out_of_time && received.final_message.is_none() {
            let still = match death {
                Death::Never => "; the process cannot be killed, because a driver call does not return",
                _ => "",
            };
            let reason = format!("killed after {} s, the time limit{still}", timeout.as_secs_f64());
            let ended = CellResult::Died {
                status: Status::Timeout,
                reason,
                memory,
                events,
            };
            return Ok((ended, received.output.bytes.into()));
        }
        let ended = received.final_message.unwrap_or_else(|| {
            let (status, reason) = judge(death, &received.output.text(), killed_for_memory);
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

/// Messages and output of a worker up to now.
#[derive(Default)]
struct WorkerOutput {
    final_message: Option<CellResult>,
    output: Tail,
    memory: MemorySoFar,
    /// Events up to the last message.
    events: Vec<Event>,
}

impl WorkerOutput {
    fn poll_memory(&mut self, worker: &Child) {
        self.memory.host = host_peak(worker).or(self.memory.host);
    }

    /// Handles a message; returns a progress update. Only the first final message counts.
    fn handle(&mut self, line: OutputLine) -> Option<ProgressUpdate> {
        match line {
            OutputLine::Message(Message::Progress(advance)) => {
                self.memory = self.memory.and(advance.memory);
                return Some(ProgressUpdate {
                    phase: advance.phase,
                    done: advance.done,
                    total: advance.total,
                });
            }
            OutputLine::Message(Message::Happened(events)) => self.events = events,
            OutputLine::Message(Message::Finished(finished)) => {
                self.final_message.get_or_insert(CellResult::Finished(finished));
            }
            OutputLine::Message(Message::Refused(reason)) => {
                self.final_message.get_or_insert(CellResult::Refused(reason));
            }
            OutputLine::Other(line) => self.output.push(&line),
            OutputLine::Closed => {}
        }
        None
    }
}

/// Child process that is killed when it is dropped, together with the processes that it started.
struct Worker(Child);

impl Worker {
    /// Kills the worker and its process group. The worker must not have been waited for: the system could have reused
    /// its process id.
    fn end(&mut self) {
        // An error means that the processes have already exited.
        #[cfg(unix)]
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::KILL,
        );
        let _ = self.0.kill();
    }

    /// Returns true if the process has exited. Does not reap it, so its process id stays reserved.
    fn is_gone(&mut self) -> bool {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            // An error means that the process was already reaped.
            waitid(WaitId::Pid(Pid::from_child(&self.0)), options).map_or(true, |state| state.is_some())
        }
        #[cfg(not(unix))]
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Waits for the exit, and kills the process after `grace`; its child processes are killed in any case. Returns
    /// `None` if it cannot be killed, which leaves the process behind.
    fn wait(&mut self, grace: Duration, ending: Duration) -> std::io::Result<Option<ExitStatus>> {
        within(grace, || self.is_gone());
        self.end();
        if within(ending, || self.is_gone()) {
            self.0.wait().map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Polls a condition. Returns true if it becomes true before `patience` has elapsed.
fn within(patience: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    const LOOK: Duration = Duration::from_millis(2);
    let start = Instant::now();
    loop {
        if is_true() {
            return true;
        }
        if start.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A reaped process returns the same status again and must not be killed, since another process may have its id.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.wait(Duration::ZERO, ENDING);
        }
    }
}

/// Returns the peak host memory of a process in bytes, where the system reports that of other processes.
fn host_peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Reads lines on a thread until the stream ends, and then sends `last`.
fn listen(
    stream: Option<impl Read + Send + 'static>,
    sender: Sender<OutputLine>,
    parse: fn(Vec<u8>) -> OutputLine,
    last: Option<OutputLine>,
) -> std::io::Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    let read = move || {
        let mut lines = BufReader::new(stream);
        let mut line = vec![];
        let mut next = |line: &mut Vec<u8>| lines.by_ref().take(LONGEST_MESSAGE).read_until(b'\n', line);
        while next(&mut line).is_ok_and(|bytes| bytes > 0) {
            if sender.send(parse(std::mem::take(&mut line))).is_err() {
                return;
            }
        }
        // The receiver is gone once the worker is classified.
        let _ = last.map(|last| sender.send(last));
    };
    std::thread::Builder::new().spawn(read).map(drop)
}

fn parse(line: Vec<u8>) -> OutputLine {
    serde_json::from_slice(&line).map_or(OutputLine::Other(line), OutputLine::Message)
}

/// Last part of the output of a worker without its messages.
#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    fn push(&mut self, line: &[u8]) {
        self.bytes.extend(line);
        let excess = self.bytes.len().saturating_sub(KEPT_OUTPUT);
        self.bytes.drain(..excess);
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn last_lines(&self) -> String {
        last_lines(&self.text())
    }
}

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Death {
    Code(i32),
    Signal(i32),
    /// The process cannot be killed.
    Never,
}

impl Death {
    fn of(exit: ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&exit) {
            return Self::Signal(signal);
        }
        Self::Code(exit.code().unwrap_or(-1))
    }
}

/// Returns the last lines of the output as a reason.
fn last_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(REASON_LINES)..].join("; ")
}

/// Classifies the end of a worker without a final message, given its output.
fn judge(death: Death, text: &str, killed_for_memory: bool) -> (Status, String) {
    const SIGABRT: i32 = 6;
    const SIGKILL: i32 = 9;
    let output = last_lines(text);
    // A backtrace may follow the message of the allocator.
    let no_memory = text.lines().find(|line| is_out_of_memory(line));
    let with_output = |what: String| {
        if output.is_empty() {
            what
        } else {
            format!("{what}: {output}")
        }
    };
    match death {
        Death::Never => (
            Status::Timeout,
            with_output("the process cannot be killed, because a driver call does not return".into()),
        ),
        Death::Signal(SIGKILL) if killed_for_memory => (
            Status::Oom,
            "killed by the operating system: host memory ran out (SIGKILL)".into(),
        ),
        Death::Signal(SIGKILL) => (
            Status::Failed,
            with_output("killed by another process (SIGKILL)".into()),
        ),
        Death::Signal(SIGABRT) if no_memory.is_some() => (
            Status::Oom,
            format!("host memory ran out: {}", no_memory.unwrap_or_default().trim()),
        ),
        Death::Signal(signal) => (
            Status::Failed,
            with_output(format!("terminated by signal {signal}")),
        ),
        Death::Code(code) if code == WorkerExit::OutOfMemory as i32 => {
            (Status::Oom, with_output("out of memory".into()))
        }
        Death::Code(code) => {
            let why = WorkerExit::ALL
                .iter()
                .find(|exit| **exit as i32 == code)
                .map(|exit| exit.meaning());
            (
                Status::Failed,
                with_output(why.map_or_else(|| format!("exit code {code}"), str::to_owned)),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::Signal;

    #[test]
    fn a_worker_that_cannot_be_ended_is_left_behind_and_out_of_time() {
        let moment = Duration::from_millis(20);
        assert!(!within(moment, || false), "the wait has a time limit");
        let mut looks = 0;
        assert!(within(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        }));
        let (status, reason) = judge(Death::Never, "NVRM: stuck", false);
        assert_eq!(status, Status::Timeout);
        assert!(reason.starts_with("the process cannot be killed") && reason.ends_with("NVRM: stuck"));
    }

    #[cfg(unix)]
    #[test]
    fn a_worker_that_ends_is_waited_for_and_one_that_does_not_is_ended() {
        let worker = |script: &str| {
            let mut command = Command::new("sh");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            Worker(command.args(["-c", script]).spawn().unwrap())
        };
        let long = Duration::from_secs(60);
        let exit = worker("exit 7").wait(long, long).unwrap();
        assert_eq!(exit.map(Death::of), Some(Death::Code(7)));
        let exit = worker("sleep 600").wait(Duration::from_millis(20), long).unwrap();
        assert_eq!(exit.map(Death::of), Some(Death::Signal(9)));
    }

    /// Returns the result of a worker that is a shell script, with a time limit of half a second.
    #[cfg(unix)]
    fn attended(stop: &Stop, script: &str) -> CellResult {
        let mut command = Command::new("sh");
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let worker = Worker(pipes.args(["-c", script]).spawn().unwrap());
        // Early output is in the pipe before the first poll.
        std::thread::sleep(Duration::from_millis(500));
        let workers = Workers::of_this_program(stop.clone()).unwrap();
        let limit = Duration::from_millis(500);
        workers.attend(worker, limit, None, &mut |_| {}).unwrap().0
    }

    #[cfg(unix)]
    #[test]
    fn the_last_word_of_a_worker_counts_though_it_is_ended_for_its_time_or_by_a_second_signal() {
        const FINAL_MESSAGE: &str = r#"echo '{"refused":"no such thing"}'; sleep 600"#;
        let refused =
            |ended: &CellResult| matches!(ended, CellResult::Refused(reason) if reason == "no such thing");
        let free = Stop::default();
        let ended = attended(&free, FINAL_MESSAGE);
        assert!(refused(&ended), "{ended:?}");
        let ended = attended(&free, "sleep 600");
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
        (0..2).for_each(|_| twice.ask(Signal::Interrupt));
        let ended = attended(&twice, "sleep 600");
        assert!(matches!(&ended, CellResult::Stopped), "{ended:?}");
        let ended = attended(&twice, FINAL_MESSAGE);
        assert!(refused(&ended), "{ended:?}");
    }

    #[test]
    fn output_without_a_line_end_is_read_in_parts() {
        let (sender, receiver) = mpsc::channel();
        let length = 2 * LONGEST_MESSAGE + 1;
        listen(Some(std::io::repeat(b'x').take(length)), sender, parse, None).unwrap();
        let lengths: Vec<_> = receiver
            .into_iter()
            .map(|line| match line {
                OutputLine::Other(line) => line.len() as u64,
                _ => panic!("expected output, not a message"),
            })
            .collect();
        assert_eq!(lengths, [LONGEST_MESSAGE, LONGEST_MESSAGE, 1]);
    }

    #[test]
    fn a_kill_is_out_of_memory_only_if_the_kernel_says_so() {
        let kill = Death::Signal(9);
        assert_eq!(judge(kill, "", true).0, Status::Oom);
        assert_eq!(
            judge(kill, "x", false),
            (Status::Failed, "killed by another process (SIGKILL): x".into())
        );
    }

    #[test]
    fn running_out_of_memory_is_told_by_the_exit_code_or_by_the_allocators_words() {
        assert_eq!(
            judge(Death::Code(WorkerExit::OutOfMemory as i32), "", false).0,
            Status::Oom
        );
        assert_eq!(
            judge(
                Death::Signal(6),
                "memory allocation of 99 bytes failed\nstack backtrace:\n 0: a\n 1: b\n 2: c\n 3: d",
                false
            ),
            (
                Status::Oom,
                "host memory ran out: memory allocation of 99 bytes failed".into()
            )
        );
        assert_eq!(
            judge(Death::Signal(6), "assertion failed", false).0,
            Status::Failed
        );
        assert!(is_out_of_memory("CUDA_ERROR_OUT_OF_MEMORY"));
        // Message of `Vec::with_capacity(usize::MAX / 2)`.
        assert!(is_out_of_memory(
            "panicked at raw_vec/mod.rs:28:5:\ncapacity overflow"
        ));
    }

    #[test]
    fn other_ends_are_failures_with_the_last_words() {
        assert_eq!(
            judge(Death::Code(3), "", false),
            (Status::Failed, "exit code 3".into())
        );
        let (status, reason) = judge(
            Death::Code(WorkerExit::Panicked as i32),
            "index out of bounds",
            false,
        );
        assert_eq!(
            (status, reason.as_str()),
            (Status::Failed, "a thread panicked: index out of bounds")
        );
    }

    #[test]
    fn the_reason_is_the_last_lines_and_the_file_keeps_the_end_of_everything() {
        let mut tail = Tail::default();
        tail.push(b"one\ntwo\n\nthree\nfour\nfive\n");
        assert_eq!(tail.last_lines(), "two; three; four; five");
        tail.push(&vec![b'x'; KEPT_OUTPUT]);
        assert_eq!(tail.bytes.len(), KEPT_OUTPUT);
    }

    #[test]
    fn a_line_that_is_no_message_is_noise() {
        assert!(matches!(parse(b"hello\n".to_vec()), OutputLine::Other(_)));
        let progress = br#"{"progress":{"phase":"measure","done":1,"total":2,"memory":{}}}"#;
        assert!(matches!(
            parse(progress.to_vec()),
            OutputLine::Message(Message::Progress(_))
        ));
    }
}
