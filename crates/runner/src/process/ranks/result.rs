//! Result of a cell with several ranks.

use std::time::{Duration, Instant};

use mantissa_core::Status;

use super::{
    super::{
        crash::{ProcessEnd, classify},
        output::last_lines,
    },
    mpirun::{Mpirun, RankEnd, output_of_ranks, reported_end},
    states::{Failure, Rank, RankStates},
};
use crate::{
    RunError,
    executor::CellResult,
    exit::{WorkerExit, is_out_of_memory},
};

/// Time without a message after which a rank is assumed to be stopped. Ranks send their progress five times a second.
const SILENCE: Duration = Duration::from_secs(2);

/// End of the processes of a cell.
pub(super) struct ProcessEnds {
    /// True if the run stops immediately.
    pub(super) stopped: bool,
    /// Time limit, if it was reached.
    pub(super) timeout: Option<Duration>,
    /// Time at which the ranks were killed.
    pub(super) killed_at: Instant,
    /// End of `mpirun`, unless it was killed with the ranks.
    pub(super) mpirun: Option<ProcessEnd>,
    /// True if the kernel killed a process for lack of memory.
    pub(super) killed_for_memory: bool,
}

/// Returns the result of a cell: that of rank 0, or the first failure of a rank.
///
/// # Errors
/// Rank 0 could not write its samples.
pub(super) fn result(
    mpirun: &Mpirun,
    states: &mut RankStates,
    ends: &ProcessEnds,
) -> Result<CellResult, RunError> {
    if states.is_complete()
        && let Some(result) = states.ranks[0].received.final_message.take()
    {
        return Ok(result);
    }
    let text = states.output.text();
    // A final message sent before the kill counts. `mpirun` ends the other ranks of a failed one. Their connections may close before the
    // message is read.
    let reported = match (&states.failure, reported_end(&text)) {
        (Some(Failure::Reported(number)), _) => Some(*number),
        (Some(Failure::Ended(_)), Some((number, _))) => Some(number),
        _ => None,
    };
    if let Some(number) = reported
        && let Some(rank) = states.ranks.get_mut(number).filter(|rank| rank.has_failed())
        && let Some(result) = rank.received.final_message.take()
    {
        return Ok(with_rank(&states.ranks[number], result));
    }
    if ends.stopped {
        return Ok(CellResult::Stopped);
    }
    let (rank, (status, reason)) = match &states.failure {
        Some(Failure::Connection(problem)) => (0, (Status::Failed, problem.clone())),
        Some(Failure::NotConnected(limit)) => (
            0,
            (Status::Failed, reason_of_missing(mpirun, states, *limit, &text)),
        ),
        Some(Failure::Ended(first)) => {
            let (rank, end) =
                reported_rank(states, &text).map_or((*first, None), |(rank, end)| (rank, Some(end)));
            if end == Some(RankEnd::Exit(ProcessEnd::Code(WorkerExit::NotWritten as i32))) {
                return Err(RunError::Samples(last_lines(&output_of_ranks(&text))));
            }
            (rank, reason_of_end(&states.ranks[rank], end, ends, &text))
        }
        _ => match (ends.timeout, reported_rank(states, &text)) {
            (Some(timeout), _) => (
                0,
                (
                    Status::Timeout,
                    reason_of_timeout(states, timeout, ends.killed_at),
                ),
            ),
            // Every rank ended before it connected.
            (None, Some((rank, end))) => (rank, reason_of_end(&states.ranks[rank], Some(end), ends, &text)),
            (None, None) => (0, reason_of_mpirun(mpirun, states, ends, &text)),
        },
    };
    let reason = match states.are_closed() {
        true => reason,
        false => format!("{reason}; a rank cannot be killed, because a driver call does not return"),
    };
    let received = &mut states.ranks[rank].received;
    Ok(CellResult::Died {
        status,
        reason,
        memory: received.memory,
        events: std::mem::take(&mut received.events),
    })
}

/// Adds the rank, its phase and its step to the reason of its final message.
fn with_rank(rank: &Rank, result: CellResult) -> CellResult {
    let prefixed = |reason: &str| format!("{rank}, {}: {reason}", rank.position());
    match result {
        CellResult::Finished(mut finished) => {
            finished.reason = finished.reason.map(|reason| prefixed(&reason));
            CellResult::Finished(finished)
        }
        CellResult::Refused(reason) => CellResult::Refused(prefixed(&reason)),
        other => other,
    }
}

/// Returns the rank that ended first according to `mpirun`, and its end. Because `mpirun` then ends the other ranks, the connection of
/// another rank may close earlier.
fn reported_rank(states: &RankStates, text: &str) -> Option<(usize, RankEnd)> {
    reported_end(text).filter(|(rank, _)| states.ranks.get(*rank).is_some_and(Rank::may_have_ended))
}

fn reason_of_end(rank: &Rank, end: Option<RankEnd>, ends: &ProcessEnds, text: &str) -> (Status, String) {
    const SIGKILL: i32 = 9;
    let output = output_of_ranks(text);
    let started = format!("{rank} ended {}", rank.position());
    // After the end of `mpirun`, the system kills the ranks.
    if let Some(end @ ProcessEnd::Signal(_)) = ends.mpirun {
        let (status, reason) = classify(end, &output, ends.killed_for_memory);
        return (status, format!("{started}, because `mpirun` ended: {reason}"));
    }
    let exit = match end {
        Some(RankEnd::Exit(end)) => Some(end),
        Some(RankEnd::Abort(_) | RankEnd::WithoutFinalize | RankEnd::MpiError) => None,
        None => ends.killed_for_memory.then_some(ProcessEnd::Signal(SIGKILL)),
    };
    if let Some(exit) = exit {
        let (status, reason) = classify(exit, &output, ends.killed_for_memory);
        return (status, format!("{started}: {reason}"));
    }
    let status = match output.lines().any(is_out_of_memory) {
        true => Status::Oom,
        false => Status::Failed,
    };
    let action = match end {
        Some(RankEnd::Abort(code)) => format!("it called MPI_Abort with error code {code}: "),
        Some(RankEnd::WithoutFinalize) => "it exited without MPI_Finalize: ".to_owned(),
        _ => String::new(),
    };
    (
        status,
        format!("{started}: {action}{}", lines_or_note(last_lines(&output))),
    )
}

/// Returns the lines of an output, or a note if there are none.
fn lines_or_note(lines: String) -> String {
    match lines.is_empty() {
        true => "no output".to_owned(),
        false => lines,
    }
}

/// Lists the ranks that did not connect within a time limit.
fn reason_of_missing(mpirun: &Mpirun, states: &RankStates, limit: Duration, text: &str) -> String {
    let missing = states.ranks.iter().filter(|rank| !rank.is_connected());
    let missing: Vec<String> = missing.map(Rank::to_string).collect();
    format!(
        "not connected within {} s after the start of `mpirun`: {}; {}; hint: check that `mpirun` starts all ranks on this machine",
        limit.as_secs_f64(),
        missing.join(", "),
        lines_or_note(mpirun.explanation(text))
    )
}

/// Describes the ranks that caused a timeout: those that did not connect and those that are silent, otherwise the slowest.
fn reason_of_timeout(states: &RankStates, timeout: Duration, killed_at: Instant) -> String {
    let silence = |rank: &Rank| {
        let silence = killed_at.saturating_duration_since(rank.last_heard?);
        (silence > SILENCE).then_some(silence)
    };
    let working = || {
        let ranks = states.ranks.iter();
        ranks.filter(|rank| rank.received.final_message.is_none())
    };
    let missing = working().filter(|rank| !rank.is_connected());
    let mut causes: Vec<String> = missing.map(|rank| format!("{rank} did not connect")).collect();
    causes.extend(working().filter_map(|rank| {
        let seconds = silence(rank)?.as_secs();
        Some(format!(
            "{rank} stopped responding {seconds} s before the limit, {}",
            rank.position()
        ))
    }));
    if causes.is_empty() {
        let slowest =
            working().min_by_key(|rank| rank.progress.map(|progress| (progress.phase, progress.done)));
        causes.extend(slowest.map(|rank| format!("the slowest rank was {rank}, {}", rank.position())));
    }
    format!(
        "killed after {} s, the time limit; {}",
        timeout.as_secs_f64(),
        causes.join("; ")
    )
}

/// Describes the exit of `mpirun` while ranks were missing or still connected.
fn reason_of_mpirun(
    mpirun: &Mpirun,
    states: &RankStates,
    ends: &ProcessEnds,
    text: &str,
) -> (Status, String) {
    let missing = states.ranks.iter().find(|rank| !rank.is_connected());
    let when = match (missing, states.ranks.first()) {
        (Some(rank), _) => format!("before {rank} connected"),
        (None, Some(rank)) => format!("before its ranks ({rank}: {})", rank.position()),
        (None, None) => String::new(),
    };
    match ends.mpirun {
        Some(end @ ProcessEnd::Signal(_)) => {
            let (status, reason) = classify(end, &output_of_ranks(text), ends.killed_for_memory);
            (status, format!("`mpirun` ended {when}: {reason}"))
        }
        _ => {
            let refusal = lines_or_note(mpirun.refusal(text));
            (Status::Failed, format!("`mpirun` ended {when}: {refusal}"))
        }
    }
}
