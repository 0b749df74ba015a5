//! Cells of several ranks: start through `mpirun`, supervision and termination.
//!
//! ```text
//! runner ──starts──▶ mpirun ──starts──▶ rank 0 … rank N-1 (workers)
//!    ▲                  │ output               │
//!    ├──────────────────┘                      │
//!    └──Unix socket: hello, request, messages──┘
//! ```
//!
//! Supervision does not depend on `mpirun`, which waits forever for a stopped rank. A rank has ended when its connection closes.

mod gpus;
mod mpirun;
mod process;
mod result;
mod socket;
mod states;
#[cfg(test)]
mod tests;

use std::{
    process::Stdio,
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use mantissa_core::{Reduce, Status};
use tempfile::TempDir;

pub(crate) use self::gpus::Gpus;
use self::{
    mpirun::Mpirun,
    result::{ProcessEnds, result},
    socket::{RankEvent, Socket},
    states::{Failure, RankStates},
};
use super::{
    DRAIN_LIMIT, EXIT_GRACE, FIRST_POLL_INTERVAL, POLL_INTERVAL, Workers,
    child::{KILL_TIMEOUT, Worker},
    crash::ProcessEnd,
    current_folder, killed_for_memory,
    output::spawn_reader,
};
use crate::{
    Finished, RunError, executor::CellResult, exit::oom_kills, message::Request, progress::ProgressUpdate,
};

/// Time limit for `mpirun` to end the other ranks after the end of one, and to report it. Open MPI 4.1 takes 1 to 3 seconds.
const REPORT_GRACE: Duration = Duration::from_secs(5);

/// Time limit for `mpirun` to remove its temporary files after the ranks were killed, before it is killed too.
const CLEANUP_GRACE: Duration = Duration::from_secs(3);

impl Workers {
    /// Runs the ranks of a cell until all of them have exited.
    ///
    /// # Errors
    /// Errors that prevent every cell from running.
    pub(super) fn run_ranks(
        &self,
        request: &Request,
        timeout: Duration,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        self.run_with(&Mpirun::new(&self.mpirun), request, timeout, on_progress)
    }

    fn run_with(
        &self,
        mpirun: &Mpirun,
        request: &Request,
        timeout: Duration,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let setting = &request.cell.setting;
        let unsupported = || Some((Status::Skipped, self.gpus.skip_reason(setting)?));
        if let Some((status, reason)) = mpirun.unavailable().or_else(unsupported) {
            let finished = Finished::without_result(status, &reason);
            return Ok((CellResult::Finished(Box::new(finished)), vec![]));
        }
        let oom_kills_before = oom_kills();
        let socket = match Socket::open(&self.gpus.requests(request)) {
            Ok(socket) => socket,
            Err(error) => {
                let reason = format!("cannot open a socket for the ranks: {error}");
                let finished = Finished::without_result(Status::Failed, &reason);
                return Ok((CellResult::Finished(Box::new(finished)), vec![]));
            }
        };
        let all_reduces = setting.reduce() == Reduce::AllReduce;
        let algorithm = all_reduces.then(|| setting.reduce_algorithm());
        let mut command = mpirun.command(setting, &self.program.executable(), &socket.path());
        // The ranks get the environment of `mpirun`.
        command
            .envs(mantissa_collectives::environment(algorithm))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let current = current_folder()?;
        if let Some(folder) = current.as_ref().map(TempDir::path) {
            command.current_dir(folder);
        }
        let mut launched = Launched {
            mpirun: Worker(command.spawn().map_err(RunError::Worker)?),
            states: RankStates::new(setting.devices() as usize),
            socket,
            connect_limit: mpirun.connect_limit,
        };
        let ends = self.supervise_ranks(&mut launched, timeout, oom_kills_before, on_progress)?;
        let mut states = launched.states;
        let result = result(mpirun, &mut states, &ends)?;
        Ok((result, states.output.bytes.into()))
    }

    /// Reads the messages of the ranks until every rank has sent its final message, or until they have to be killed. Then ends all
    /// processes.
    fn supervise_ranks(
        &self,
        launched: &mut Launched,
        timeout: Duration,
        oom_kills_before: Option<u64>,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<ProcessEnds, RunError> {
        let (sender, receiver) = mpsc::channel();
        let pipes = &mut launched.mpirun.0;
        let readers = spawn_reader(pipes.stdout.take(), sender.clone(), RankEvent::Output, None)
            .and_then(|()| spawn_reader(pipes.stderr.take(), sender.clone(), RankEvent::Output, None));
        if let Err(error) = readers {
            let problem = format!("cannot start a thread for the output of `mpirun`: {error}");
            launched.states.fail(Failure::Connection(problem));
        }
        let start = Instant::now();
        let (mut stopped, mut timed_out) = (false, false);
        while !(stopped || timed_out || launched.states.is_decided() || launched.mpirun.has_exited()) {
            let left = timeout.saturating_sub(start.elapsed());
            let interval = POLL_INTERVAL.min(FIRST_POLL_INTERVAL + start.elapsed() / 2);
            on_progress(launched.poll((&sender, &receiver), left.min(interval)));
            stopped = self.stop.is_immediate();
            timed_out = !stopped && !launched.states.is_decided() && start.elapsed() >= timeout;
            if !timed_out && start.elapsed() >= launched.connect_limit && !launched.states.are_connected() {
                let failure = Failure::NotConnected(launched.connect_limit);
                launched.states.fail(failure);
            }
        }
        if !stopped && !timed_out {
            let complete = launched.states.is_complete();
            let end = Instant::now() + if complete { EXIT_GRACE } else { REPORT_GRACE };
            while Instant::now() < end && !launched.have_exited() && !self.stop.is_immediate() {
                on_progress(launched.poll((&sender, &receiver), FIRST_POLL_INTERVAL));
            }
        }
        let killed_at = Instant::now();
        let exited_by_itself = launched.mpirun.has_exited();
        // After the end of its ranks, `mpirun` exits.
        let killed_ranks = launched.states.kill();
        if !exited_by_itself && !killed_ranks {
            launched.mpirun.terminate();
        }
        let exit = launched.mpirun.wait(CLEANUP_GRACE, KILL_TIMEOUT);
        let exit = exit.map_err(RunError::Worker)?;
        drop(sender);
        launched.drain(&receiver, on_progress);
        Ok(ProcessEnds {
            stopped,
            timeout: timed_out.then_some(timeout),
            killed_at,
            mpirun: exit.map(ProcessEnd::of).filter(|_| exited_by_itself),
            killed_for_memory: killed_for_memory(oom_kills_before),
        })
    }
}

/// Processes of a cell with several ranks.
struct Launched {
    mpirun: Worker,
    socket: Socket,
    states: RankStates,
    /// Time limit for all ranks to connect.
    connect_limit: Duration,
}

impl Launched {
    /// Accepts new ranks, and waits at most `interval` for an event. Returns the progress of rank 0 after its messages. A failure to accept
    /// ranks is a failure of the cell.
    fn poll(
        &mut self,
        (sender, receiver): (&Sender<RankEvent>, &Receiver<RankEvent>),
        interval: Duration,
    ) -> Option<ProgressUpdate> {
        if let Err(error) = self.socket.accept(sender) {
            self.states.fail(Failure::Connection(error.to_string()));
        }
        match receiver.recv_timeout(interval) {
            Ok(event) => self.states.handle(event),
            Err(_) => {
                self.states.poll_memory();
                None
            }
        }
    }

    /// Returns true if `mpirun` and all connected ranks have exited.
    fn have_exited(&mut self) -> bool {
        self.mpirun.has_exited() && self.states.are_closed()
    }

    /// Handles the last messages and output of killed ranks until all streams end. Does not wait for a stream that another
    /// process keeps open, or for a process that cannot be killed.
    fn drain(&mut self, receiver: &Receiver<RankEvent>, on_progress: &mut dyn FnMut(Option<ProgressUpdate>)) {
        let start = Instant::now();
        let left = |states: &RankStates| {
            let limit = match states.are_closed() {
                true => DRAIN_LIMIT,
                false => KILL_TIMEOUT,
            };
            limit.checked_sub(start.elapsed())
        };
        while let Some(left) = left(&self.states)
            && let Ok(event) = receiver.recv_timeout(left)
        {
            on_progress(self.states.handle(event));
        }
    }
}
