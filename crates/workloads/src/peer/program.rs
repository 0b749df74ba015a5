//! The program of another framework: started, asked one question after the other, and ended.

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

use crate::{AllocatorBytes, WorkloadError, timing::Launch};

/// Longest answer of a peer, in bytes.
const LONGEST_ANSWER: u64 = 64 << 20;

/// Longest part of an answer that an error repeats, in bytes.
const LONGEST_QUOTE: usize = 1 << 10;

/// Longest reason of a peer, in bytes.
const LONGEST_REASON: usize = 64 << 10;

/// Time that it has to be gone after its last answer.
const GRACE: Duration = Duration::from_secs(5);

/// Time between two looks at whether its first answer is still waited for.
const LOOK: Duration = Duration::from_millis(50);

/// A program that computes with another framework. It reads questions and writes answers, a JSON document a line.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// It has a process group of its own.
    apart: bool,
    id: u32,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The same moment by this process's clock and by its own, seconds.
    moment: (Instant, f64),
    /// The most that its allocator has held since the cell was read, as of its last answer.
    pub(super) allocator: Option<AllocatorBytes>,
}

/// What it is asked to do. Times that it answers with are its own: what the way to it takes is in none of them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question<'a> {
    /// What it is: [`About`].
    About,
    /// What its clock shows, seconds.
    Clock,
    /// To multiply the operands in a file as a pass of an operation does, in a setting, and to write the product to a file,
    /// little-endian f64: why it cannot, if it cannot.
    Multiply {
        setting: &'a Setting,
        pass: &'a str,
        operands: &'a Path,
        result: &'a Path,
    },
    /// To make the model of a cell ready: [`Loaded`].
    Load { folder: &'a Path, cell: &'a str },
    /// To make an optimizer step over micro-batches of training examples: [`Stepped`].
    Step {
        micro_batches: &'a [Vec<usize>],
        learning_rate: f64,
    },
    /// To forget all steps so far.
    StartOver,
    /// What the model says of examples of a part: [`Predicted`].
    Predict { part: &'a str, examples: &'a [usize] },
    /// To write after the prompts: [`Wrote`].
    Write,
    /// To launch something, from an idle device to an idle device: [`Launched`].
    Launch { what: What },
    /// To write the result of the first launch to a file, little-endian f64.
    Result { file: &'a Path },
    /// To lay beside the inputs of a kernel copies of them, so that so many take turns from then on.
    Copies { copies: usize },
    /// To lay in their place what a copy reads: so many values in the format of the parameters, so many times.
    LayForCopy { values: u64, copies: usize },
}

/// What is launched.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// Nothing at all: what the clock shows then is not the kernel's.
    Nothing,
    /// The kernel.
    Kernel,
    /// A copy of what was laid there for it.
    Copy,
}

/// What a program says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct About {
    /// The framework and its version: `PyTorch 2.15.0`.
    pub name: String,
    /// The number of the process that computes, where a program in between has another.
    #[serde(default)]
    pub pid: Option<u32>,
}

/// A model is ready.
#[derive(Debug, Deserialize)]
pub(crate) struct Loaded {
    /// Reading what was handed over, and building the model.
    pub seconds: f64,
    /// Why it cannot compute the cell as the setting says; absent if it can.
    pub unavailable: Option<String>,
}

/// When something was under way, by the program's clock, seconds.
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

/// An optimizer step was made.
#[derive(Debug, Deserialize)]
pub(super) struct Stepped {
    pub window: Window,
    /// Mean loss of the group; absent if it is not finite.
    pub loss: Option<f64>,
    /// Predicted right.
    pub hits: u64,
    /// Loss scale before and after it, where there is one.
    pub scales: Option<[f64; 2]>,
    /// Whether an overflow made it none.
    pub skipped: bool,
}

/// What a model says of some examples.
#[derive(Debug, Deserialize)]
pub(super) struct Predicted {
    pub window: Window,
    /// The class or word with the highest logit, of each.
    pub predicted: Vec<i32>,
    /// Cross-entropy of each, nats; absent if it is not finite.
    pub losses: Vec<Option<f64>>,
}

/// A launch was made.
#[derive(Debug, Deserialize)]
pub(crate) struct Launched {
    window: Window,
    /// By the device's own clock, where it has one.
    device: Option<f64>,
}

impl Launched {
    pub fn timed(&self) -> Timed {
        Timed::new(self.device, self.window.seconds())
    }

    /// The same by this process's clock.
    pub fn at(&self, peer: &Peer) -> Launch {
        Launch {
            window: peer.moments(self.window),
            timed: self.timed(),
        }
    }
}

/// What was written after the prompts.
#[derive(Debug, Deserialize)]
pub(super) struct Wrote {
    pub window: Window,
    /// Token ids, `[new tokens, n]`.
    pub tokens: Vec<i32>,
    /// From the beginning, or from the token before, until each token was on the host.
    pub seconds: Vec<f64>,
    /// Whether every logit of the last token is finite.
    pub finite: bool,
}

#[derive(Deserialize)]
struct Given<A> {
    answer: A,
}

/// What stands beside an answer, or in its place.
#[derive(Deserialize)]
struct Beside {
    /// Why there is no answer.
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
    /// Starts the program: its name and the words behind it.
    ///
    /// # Errors
    /// There is no such program, or it does not understand.
    pub fn start(command: &[String]) -> Result<Self, WorkloadError> {
        Self::spawn(command, false)?.greeted(command)
    }

    /// Asks the program what it is. Ends it, with everything that it started, and returns `None` when `give_up` is true.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn about_of(command: &[String], give_up: impl Fn() -> bool) -> Result<Option<About>, WorkloadError> {
        let peer = Self::spawn(command, true)?;
        let process = peer.process();
        let (sender, answer) = channel();
        let words = command.to_vec();
        let ask = move || {
            let answer = peer.greeted(&words).and_then(|mut peer| peer.about());
            // The program is gone by now.
            let _ = sender.send(answer);
        };
        thread::Builder::new()
            .spawn(ask)
            .map_err(|error| WorkloadError::Data(format!("cannot start a thread: {error}")))?;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer.map(Some),
                Err(RecvTimeoutError::Timeout) if !give_up() => {}
                Err(RecvTimeoutError::Timeout) => {
                    process.end();
                    return Ok(None);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(WorkloadError::Device("the peer was not understood".to_owned()));
                }
            }
        }
    }

    /// Starts the program, `apart` in a process group of its own.
    fn spawn(command: &[String], apart: bool) -> Result<Self, WorkloadError> {
        let [program, arguments @ ..] = command else {
            return Err(WorkloadError::Data("the command of a peer has no words".into()));
        };
        let told = |error: std::io::Error| {
            let hint = match error.kind() {
                ErrorKind::NotFound => "\n  hint: peers/README.md says how to install it",
                _ => "",
            };
            WorkloadError::Data(format!("cannot start `{program}`: {error}{hint}"))
        };
        let mut start = Command::new(program);
        #[cfg(unix)]
        if apart {
            std::os::unix::process::CommandExt::process_group(&mut start, 0);
        }
        let mut child = start
            .args(arguments)
            // As many threads as burn has here.
            .env("OMP_NUM_THREADS", rayon::current_num_threads().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(told)?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for");
        };
        Ok(Self {
            id: child.id(),
            child,
            apart,
            questions: Some(questions),
            answers: BufReader::new(answers),
            moment: (Instant::now(), 0.0),
            allocator: None,
        })
    }

    /// Asks the first questions.
    fn greeted(mut self, command: &[String]) -> Result<Self, WorkloadError> {
        // The first answer comes once everything is imported.
        let _: f64 = self.ask(&Question::Clock).map_err(|error| match error {
            WorkloadError::Device(reason) => {
                WorkloadError::Data(format!("`{}`: {reason}", command.join(" ")))
            }
            error => error,
        })?;
        let before = Instant::now();
        let shown = self.ask(&Question::Clock)?;
        self.moment = (before + before.elapsed() / 2, shown);
        self.id = self.about()?.pid.unwrap_or(self.id);
        Ok(self)
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub fn about(&mut self) -> Result<About, WorkloadError> {
        self.ask(&Question::About)
    }

    /// The number of the process that computes.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<A: DeserializeOwned>(&mut self, question: &Question<'_>) -> Result<A, WorkloadError> {
        let mut line = serde_json::to_vec(question).expect("questions are plain data");
        line.push(b'\n');
        let questions = self.questions.as_mut().expect("it is taken at the end");
        // One that is gone is found out below.
        let _ = questions.write_all(&line).and_then(|()| questions.flush());
        match read_line(&mut self.answers, &mut line, LONGEST_ANSWER) {
            Ok(0) => return Err(self.gone()),
            Ok(_) => {}
            Err(error) => return Err(WorkloadError::Device(format!("the peer's answer: {error}"))),
        }
        let not_understood = |error: serde_json::Error| {
            let said = String::from_utf8_lossy(&line[..line.len().min(LONGEST_QUOTE)]);
            WorkloadError::Device(format!("the peer's answer is none: {error}: {}", said.trim()))
        };
        let beside: Beside = serde_json::from_slice(&line).map_err(not_understood)?;
        if let Some(Bytes { reserved, in_use }) = beside.allocator {
            self.allocator = Some(AllocatorBytes { reserved, in_use });
        }
        if let Some(mut reason) = beside.failed {
            reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
            return Err(WorkloadError::Device(reason));
        }
        let given: Given<A> = serde_json::from_slice(&line).map_err(not_understood)?;
        Ok(given.answer)
    }

    /// When something was, by this process's clock.
    pub(super) fn moments(&self, window: Window) -> Range<Instant> {
        let (here, there) = self.moment;
        let at = |seconds: f64| match Duration::try_from_secs_f64(seconds - there) {
            Ok(later) => here + later,
            Err(_) => here,
        };
        at(window.begun)..at(window.ended)
    }

    /// What its end means.
    fn gone(&mut self) -> WorkloadError {
        WorkloadError::Device(match self.ended() {
            Some(status) => format!("the peer ended without an answer: {status}"),
            None => "the peer closed its output without an answer".to_owned(),
        })
    }

    /// Waits at most [`GRACE`] for the exit status.
    fn ended(&mut self) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begun.elapsed() < GRACE => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }

    fn process(&self) -> Process {
        Process {
            #[cfg(unix)]
            id: rustix::process::Pid::from_child(&self.child),
            apart: self.apart,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends where the questions do.
        drop(self.questions.take());
        if self.ended().is_none() {
            let _ = self.child.kill();
            self.process().end();
            let _ = self.child.wait();
        }
    }
}

/// The process of a peer, known by its number.
#[derive(Clone, Copy)]
struct Process {
    #[cfg(unix)]
    id: rustix::process::Pid,
    apart: bool,
}

impl Process {
    /// Ends its process group, where it has one of its own. Otherwise the worker's parent does.
    fn end(self) {
        #[cfg(unix)]
        if self.apart {
            // An error means that they are gone already.
            let _ = rustix::process::kill_process_group(self.id, rustix::process::Signal::KILL);
        }
    }
}
