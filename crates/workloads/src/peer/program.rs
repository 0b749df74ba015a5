//! Process of another framework: starts the process, sends requests, and stops it.

use std::{
    io::{BufReader, ErrorKind, Write},
    ops::Range,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use mantissa_core::{Setting, read_line};
use mantissa_precision::Timed;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{AllocatorBytes, WorkloadError, outcome::ActionError, timing::Launch};

/// Maximum size of a peer's response, in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// Maximum size of a response quoted in an error, in bytes.
const MAX_QUOTE_BYTES: usize = 1 << 10;

/// Maximum size of a peer's error message, in bytes.
const MAX_REASON_BYTES: usize = 64 << 10;

/// Time limit for the exit of the peer after its last response.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Polling interval while waiting for the first response.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Program that computes with another framework. It reads requests and writes responses, one JSON document per line.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// True if the peer is the leader of a process group.
    own_group: bool,
    id: u32,
    requests: Option<ChildStdin>,
    responses: BufReader<ChildStdout>,
    /// The same moment on two clocks: of this process, and of the peer in seconds.
    synchronized_at: (Instant, f64),
    /// Peak of the peer's allocator since the cell was loaded, from the last response.
    pub(super) allocator: Option<AllocatorBytes>,
}

/// Request to the peer, serialized as JSON. A link after a colon is the type of the response. Times in responses come from the peer's clock and
/// exclude the communication.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request<'a> {
    /// Describe the program: [`ProgramInfo`].
    About,
    /// Read the clock, in seconds.
    Clock,
    /// Multiply the operands in a file, in the precision that matmuls of the kind `pass` (such as `forward` or `backward`) have under `setting`.
    /// Write the product to a file as little-endian f64. If this is not possible, the response is the reason.
    Multiply {
        setting: &'a Setting,
        pass: &'a str,
        operands: &'a Path,
        result: &'a Path,
    },
    /// Prepare the model of a cell: [`Loaded`].
    Load { folder: &'a Path, cell: &'a str },
    /// Run an optimizer step over micro-batches of training examples: [`Stepped`].
    Step {
        micro_batches: &'a [Vec<usize>],
        learning_rate: f64,
    },
    /// Reset the training to its initial state.
    StartOver,
    /// Predict examples of a split: [`Predicted`].
    Predict { part: &'a str, examples: &'a [usize] },
    /// Generate tokens after the prompts: [`GeneratedText`].
    Write,
    /// Launch an operation on the idle device and wait for its end: [`Launched`].
    Launch { what: LaunchKind },
    /// Write the result of the first launch to a file, little-endian f64.
    Result { file: &'a Path },
    /// Create copies of the inputs of a kernel, and use them in rotation from then on.
    Copies { copies: usize },
    /// Replace the inputs by `copies` tensors of `values` values each, in the format of the parameters, for [`LaunchKind::Copy`].
    LayForCopy { values: u64, copies: usize },
}

/// Operation of a launch.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaunchKind {
    /// No operation, to measure the overhead of the timing.
    Nothing,
    /// The kernel.
    Kernel,
    /// A copy of a tensor of [`Request::LayForCopy`].
    Copy,
}

/// Description of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProgramInfo {
    /// The framework and its version, for example `PyTorch 2.15.0`.
    pub name: String,
    /// Id of the process that computes, if it is not the process that was started.
    #[serde(default)]
    pub pid: Option<u32>,
}

/// Response when a model is ready.
#[derive(Debug, Deserialize)]
pub(crate) struct Loaded {
    /// Seconds spent on reading the files and building the model.
    pub seconds: f64,
    /// Reason why the program cannot compute the cell in this setting; absent if it can.
    pub unavailable: Option<String>,
}

/// Time window on the peer's clock, seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Window {
    pub begun: f64,
    pub ended: f64,
}

impl Window {
    pub fn seconds(self) -> f64 {
        self.ended - self.begun
    }
}

/// Response after an optimizer step.
#[derive(Debug, Deserialize)]
pub(super) struct Stepped {
    pub window: Window,
    /// Mean loss over all micro-batches of the step; absent if it is not finite.
    pub loss: Option<f64>,
    /// Number of correct predictions.
    pub hits: u64,
    /// Loss scale before and after the step, if the loss is scaled.
    pub scales: Option<[f64; 2]>,
    /// True if the step was skipped because of an overflow.
    pub skipped: bool,
}

/// Predictions for the requested examples.
#[derive(Debug, Deserialize)]
pub(super) struct Predicted {
    pub window: Window,
    /// Class or token with the highest logit of each example.
    pub predicted: Vec<i32>,
    /// Cross-entropy of each example, nats; absent if it is not finite.
    pub losses: Vec<Option<f64>>,
}

/// Response after a launch.
#[derive(Debug, Deserialize)]
pub(crate) struct Launched {
    window: Window,
    /// Seconds by the device clock, if the device has one.
    device: Option<f64>,
}

impl Launched {
    pub fn timed(&self) -> Timed {
        Timed::new(self.device, self.window.seconds())
    }

    /// Converts the launch to the clock of this process.
    pub fn to_launch(&self, peer: &Peer) -> Launch {
        Launch {
            window: peer.to_instants(self.window),
            timed: self.timed(),
        }
    }
}

/// Tokens generated after the prompts.
#[derive(Debug, Deserialize)]
pub(super) struct GeneratedText {
    pub window: Window,
    /// Token ids, `[new tokens, n]`.
    pub tokens: Vec<i32>,
    /// Seconds until each token was on the host, since the start or the previous token.
    pub seconds: Vec<f64>,
    /// True if every logit of the last token is finite.
    pub finite: bool,
}

#[derive(Deserialize)]
struct Response<A> {
    answer: A,
}

/// Fields of a response besides `answer`.
#[derive(Deserialize)]
struct ResponseStatus {
    /// Reason why the request failed.
    #[serde(default)]
    failed: Option<String>,
    #[serde(default)]
    allocator: Option<Bytes>,
}

#[derive(Deserialize)]
struct Bytes {
    reserved: u64,
    in_use: u64,
}

impl Peer {
    /// Starts the program with the given name and arguments.
    ///
    /// # Errors
    /// The program does not exist, or its responses are malformed.
    pub fn start(command: &[String]) -> Result<Self, WorkloadError> {
        Self::spawn(command, false)?.connect(command)
    }

    /// Starts the program and requests its description. If `stop_requested` returns true, kills the program with all of its child processes and
    /// returns `None`.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn program_info_of(
        command: &[String],
        stop_requested: impl Fn() -> bool,
    ) -> Result<Option<ProgramInfo>, WorkloadError> {
        let peer = Self::spawn(command, true)?;
        let process = peer.process();
        let (sender, info) = channel();
        let command_line = command.to_vec();
        let read_info = move || {
            let info = peer
                .connect(&command_line)
                .and_then(|mut peer| peer.program_info());
            // An error means that the caller gave up and does not wait for the response.
            let _ = sender.send(info);
        };
        thread::Builder::new()
            .spawn(read_info)
            .map_err(|error| WorkloadError::data(ActionError::new("cannot start a thread", error)))?;
        loop {
            match info.recv_timeout(POLL_INTERVAL) {
                Ok(info) => return info.map(Some),
                Err(RecvTimeoutError::Timeout) if !stop_requested() => {}
                Err(RecvTimeoutError::Timeout) => {
                    process.end();
                    return Ok(None);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(WorkloadError::device(
                        "the thread that reads the peer's response panicked".to_owned(),
                    ));
                }
            }
        }
    }

    /// Starts the program, in its own process group if `own_group` is true.
    fn spawn(command: &[String], own_group: bool) -> Result<Self, WorkloadError> {
        let [program, arguments @ ..] = command else {
            return Err(WorkloadError::data("the peer command is empty"));
        };
        let start_error = |error: std::io::Error| {
            let hint = match error.kind() {
                ErrorKind::NotFound => "\n  hint: peers/README.md describes the installation",
                _ => "",
            };
            WorkloadError::data(format!("cannot start `{program}`: {error}{hint}"))
        };
        let mut start = Command::new(program);
        #[cfg(unix)]
        if own_group {
            std::os::unix::process::CommandExt::process_group(&mut start, 0);
        }
        let mut child = start
            .args(arguments)
            // Use as many threads as burn in this process.
            .env("OMP_NUM_THREADS", rayon::current_num_threads().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(start_error)?;
        let (Some(requests), Some(responses)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("stdin and stdout are piped");
        };
        Ok(Self {
            id: child.id(),
            child,
            own_group,
            requests: Some(requests),
            responses: BufReader::new(responses),
            synchronized_at: (Instant::now(), 0.0),
            allocator: None,
        })
    }

    /// Sends the first requests: synchronizes the clocks and reads the process id.
    fn connect(mut self, command: &[String]) -> Result<Self, WorkloadError> {
        // Do not synchronize the clocks with the first response, because the peer imports its packages before it.
        let _: f64 = self.request(&Request::Clock).map_err(|error| match error {
            WorkloadError::Device(reason) => {
                WorkloadError::data(format!("`{}`: {reason}", command.join(" ")))
            }
            error => error,
        })?;
        let before = Instant::now();
        let peer_seconds = self.request(&Request::Clock)?;
        self.synchronized_at = (before + before.elapsed() / 2, peer_seconds);
        self.id = self.program_info()?.pid.unwrap_or(self.id);
        Ok(self)
    }

    /// Returns the description of the program.
    ///
    /// # Errors
    /// The peer does not respond.
    pub fn program_info(&mut self) -> Result<ProgramInfo, WorkloadError> {
        self.request(&Request::About)
    }

    /// Returns the id of the process that computes.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends a request and waits for the response.
    pub(crate) fn request<A: DeserializeOwned>(&mut self, request: &Request<'_>) -> Result<A, WorkloadError> {
        let mut line = serde_json::to_vec(request).expect("requests are serializable");
        line.push(b'\n');
        let requests = self
            .requests
            .as_mut()
            .expect("stdin is open until the peer is dropped");
        // Ignore an error, because the read below detects that the peer has exited.
        let _ = requests.write_all(&line).and_then(|()| requests.flush());
        match read_line(&mut self.responses, &mut line, MAX_RESPONSE_BYTES) {
            Ok(0) => return Err(self.exit_error()),
            Ok(_) => {}
            Err(error) => {
                return Err(WorkloadError::device(format!(
                    "cannot read the response of the peer: {error}"
                )));
            }
        }
        let invalid_response = |error: serde_json::Error| {
            let quote = String::from_utf8_lossy(&line[..line.len().min(MAX_QUOTE_BYTES)]);
            WorkloadError::device(format!("invalid response of the peer: {error}: {}", quote.trim()))
        };
        let status: ResponseStatus = serde_json::from_slice(&line).map_err(invalid_response)?;
        if let Some(Bytes { reserved, in_use }) = status.allocator {
            self.allocator = Some(AllocatorBytes { reserved, in_use });
        }
        if let Some(mut reason) = status.failed {
            reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
            return Err(WorkloadError::device(reason));
        }
        let response: Response<A> = serde_json::from_slice(&line).map_err(invalid_response)?;
        Ok(response.answer)
    }

    /// Converts a time window to the clock of this process.
    pub(super) fn to_instants(&self, window: Window) -> Range<Instant> {
        let (instant, peer_seconds) = self.synchronized_at;
        let to_instant = |seconds: f64| match Duration::try_from_secs_f64(seconds - peer_seconds) {
            Ok(elapsed) => instant + elapsed,
            Err(_) => instant,
        };
        to_instant(window.begun)..to_instant(window.ended)
    }

    /// Returns the error of a peer that exited or closed its output.
    fn exit_error(&mut self) -> WorkloadError {
        WorkloadError::device(match self.wait_for_exit() {
            Some(status) => format!("the peer exited without a response: {status}"),
            None => "the peer closed its output without a response".to_owned(),
        })
    }

    /// Waits for the exit status, for at most [`EXIT_TIMEOUT`].
    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begun.elapsed() < EXIT_TIMEOUT => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }

    fn process(&self) -> Process {
        Process {
            #[cfg(unix)]
            id: rustix::process::Pid::from_child(&self.child),
            own_group: self.own_group,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer exits at the end of its input.
        drop(self.requests.take());
        if self.wait_for_exit().is_none() {
            let _ = self.child.kill();
            self.process().end();
            let _ = self.child.wait();
        }
    }
}

/// Handle of a peer's process.
#[derive(Clone, Copy)]
struct Process {
    #[cfg(unix)]
    id: rustix::process::Pid,
    own_group: bool,
}

impl Process {
    /// Kills the peer's process group, if it has one. Otherwise, the parent of the worker kills the peer.
    fn end(self) {
        #[cfg(unix)]
        if self.own_group {
            // An error means that the processes have already exited.
            let _ = rustix::process::kill_process_group(self.id, rustix::process::Signal::KILL);
        }
    }
}
