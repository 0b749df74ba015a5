//! State of each rank, as known from its messages.

use std::{
    fmt,
    time::{Duration, Instant},
};

use mantissa_core::Status;

use super::{
    super::output::{OutputLine, Tail, WorkerOutput},
    process::RankProcess,
    socket::RankEvent,
};
use crate::{executor::CellResult, message::Hello, progress::ProgressUpdate};

/// State of all ranks of a cell.
pub(super) struct RankStates {
    pub(super) ranks: Vec<Rank>,
    /// Output of `mpirun` and the ranks.
    pub(super) output: Tail,
    /// First failure, which decides the result.
    pub(super) failure: Option<Failure>,
    killed: bool,
}

/// Failure of a rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// The rank sent a final message without a result.
    Reported(usize),
    /// The rank ended without a final message.
    Ended(usize),
    /// A connection failed, or a process broke the protocol.
    Connection(String),
    /// Ranks did not connect within this time limit.
    NotConnected(Duration),
}

/// State of a rank.
pub(super) struct Rank {
    number: usize,
    size: usize,
    pub(super) received: WorkerOutput,
    pub(super) progress: Option<ProgressUpdate>,
    /// Time of the last message.
    pub(super) last_heard: Option<Instant>,
    process: Option<RankProcess>,
    is_closed: bool,
    /// True if the connection closed before the ranks were killed.
    has_ended: bool,
}

impl RankStates {
    pub(super) fn new(size: usize) -> Self {
        let rank = |number| Rank {
            number,
            size,
            received: WorkerOutput::default(),
            progress: None,
            last_heard: None,
            process: None,
            is_closed: false,
            has_ended: false,
        };
        Self {
            ranks: (0..size).map(rank).collect(),
            output: Tail::default(),
            failure: None,
            killed: false,
        }
    }

    /// Handles an event. Returns progress updates of rank 0.
    pub(super) fn handle(&mut self, event: RankEvent) -> Option<ProgressUpdate> {
        match event {
            RankEvent::Connected(hello, process) => self.connect(&hello, process),
            RankEvent::Malformed(line) => {
                let line = String::from_utf8_lossy(&line);
                self.fail(Failure::Connection(format!(
                    "a process connected as a rank and sent an invalid line: {}",
                    line.trim_end()
                )));
            }
            RankEvent::Unsupervised(reason) => self.fail(Failure::Connection(reason)),
            RankEvent::Line(rank, line) => return self.handle_line(rank, line).filter(|_| rank == 0),
            RankEvent::Output(line) => self.output.push(&line),
        }
        None
    }

    fn connect(&mut self, hello: &Hello, process: RankProcess) {
        let size = self.ranks.len();
        let problem = match self.ranks.get_mut(hello.rank) {
            None => format!(
                "a process connected as rank {}, but the cell has {size} ranks",
                hello.rank
            ),
            Some(rank) if rank.is_connected() => format!("two processes connected as {rank}"),
            Some(rank) => {
                if self.killed {
                    process.kill();
                }
                rank.process = Some(process);
                rank.last_heard = Some(Instant::now());
                return;
            }
        };
        // The process is killed here, because it is dropped.
        self.fail(Failure::Connection(format!(
            "{problem}; hint: check that `mpirun` is that of Open MPI"
        )));
    }

    fn handle_line(&mut self, number: usize, line: OutputLine) -> Option<ProgressUpdate> {
        // Lines of a process with an invalid number.
        let rank = self.ranks.get_mut(number)?;
        let failure = match line {
            OutputLine::Closed => {
                rank.is_closed = true;
                rank.has_ended = !self.killed;
                let is_failure = rank.has_ended && rank.received.final_message.is_none();
                is_failure.then_some(Failure::Ended(number))
            }
            OutputLine::Other(line) => {
                self.output.push(&line);
                None
            }
            OutputLine::Message(_) => {
                rank.last_heard = Some(Instant::now());
                if let Some(progress) = rank.received.handle(line) {
                    rank.progress = Some(progress);
                    rank.poll_memory();
                    return Some(progress);
                }
                rank.has_failed().then_some(Failure::Reported(number))
            }
        };
        if let Some(failure) = failure {
            self.fail(failure);
        }
        None
    }

    /// Stores the first failure.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Returns true if every rank has sent its final message, without a failure.
    pub(super) fn is_complete(&self) -> bool {
        self.failure.is_none()
            && self
                .ranks
                .iter()
                .all(|rank| rank.received.final_message.is_some())
    }

    /// Returns true if every rank has connected.
    pub(super) fn are_connected(&self) -> bool {
        self.ranks.iter().all(Rank::is_connected)
    }

    /// Returns true if the result of the cell does not depend on further messages.
    pub(super) fn is_decided(&self) -> bool {
        self.failure.is_some() || self.is_complete()
    }

    /// Returns true if the connections of all ranks that have connected are closed.
    pub(super) fn are_closed(&self) -> bool {
        self.ranks
            .iter()
            .all(|rank| rank.is_closed || !rank.is_connected())
    }

    /// Kills all connected ranks. Returns false if none of them was still running. Connections that close from now on are not failures.
    pub(super) fn kill(&mut self) -> bool {
        self.killed = true;
        for rank in &self.ranks {
            rank.process.iter().for_each(RankProcess::kill);
        }
        self.ranks
            .iter()
            .any(|rank| rank.is_connected() && !rank.is_closed)
    }

    pub(super) fn poll_memory(&mut self) {
        self.ranks.iter_mut().for_each(Rank::poll_memory);
    }
}

impl Rank {
    pub(super) fn is_connected(&self) -> bool {
        self.process.is_some()
    }

    /// Returns true unless the rank still ran when the ranks were killed. A rank can end before it connects.
    pub(super) fn may_have_ended(&self) -> bool {
        self.has_ended || !self.is_connected()
    }

    /// Returns true if the final message does not contain a result.
    pub(super) fn has_failed(&self) -> bool {
        match &self.received.final_message {
            None => false,
            Some(CellResult::Finished(finished)) => !matches!(finished.status, Status::Ok | Status::Diverged),
            Some(_) => true,
        }
    }

    fn poll_memory(&mut self) {
        let peak = self.process.as_ref().and_then(RankProcess::host_peak);
        self.received.memory.host = peak.or(self.received.memory.host);
    }

    /// Returns the phase and the step, e.g. `in the phase measure, at step 3 of 20`.
    pub(super) fn position(&self) -> String {
        match &self.progress {
            None if self.is_connected() => "before it reported a phase".to_owned(),
            None => "before it connected".to_owned(),
            Some(progress) if progress.total == 0 => format!("in the phase {}", progress.phase.name()),
            Some(ProgressUpdate { phase, done, total }) => {
                format!("in the phase {}, at step {done} of {total}", phase.name())
            }
        }
    }
}

impl fmt::Display for Rank {
    /// Writes the number, e.g. `rank 1 of 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.number, self.size)
    }
}
