//! Detection of other processes on the GPU. Before a cell, this run does not compute there, so any process belongs to
//! another program.

use std::{collections::BTreeSet, time::Duration};

use mantissa_core::{Event, EventKind};

use crate::Busy;

/// Time that an exited worker may stay in the process list of the driver. A process that is listed longer does not
/// belong to this run.
const LINGER: Duration = Duration::from_secs(2);

/// Time limit of the wait for a free GPU.
pub(crate) const WAIT: Duration = Duration::from_secs(600);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(250);

/// Other processes on the GPU, and the decision about them.
#[derive(Debug, PartialEq)]
pub(crate) enum Contention {
    /// The run continues despite the processes with these ids.
    Tolerated(BTreeSet<u32>),
    /// The run cannot continue because of the processes with these ids.
    Refused(BTreeSet<u32>),
}

/// Lists the other processes and waits as `busy` requires. `known` contains processes that were already there before;
/// unlike an exiting worker, they are not waited for. `look` returns an empty set if the driver does not list
/// processes; `pause` returns false if the wait has to end.
pub(crate) fn contention(
    busy: Busy,
    known: &BTreeSet<u32>,
    mut look: impl FnMut() -> BTreeSet<u32>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Contention {
    let mut waited = Duration::ZERO;
    loop {
        let there = look();
        let patience = match busy {
            _ if there.is_empty() => Duration::ZERO,
            Busy::Wait => WAIT,
            Busy::Warn | Busy::Fail if there.is_subset(known) => Duration::ZERO,
            Busy::Warn | Busy::Fail => LINGER,
        };
        if waited < patience && pause(LOOK) {
            waited += LOOK;
            continue;
        }
        return match busy {
            Busy::Wait | Busy::Fail if waited < patience => Contention::Tolerated(there), // the run was stopped
            Busy::Wait | Busy::Fail if !there.is_empty() => Contention::Refused(there),
            _ => Contention::Tolerated(there),
        };
    }
}

/// Returns the other processes that a worker detected while it computed, e.g. `process 4711`.
pub(crate) fn strangers(events: &[Event]) -> Vec<String> {
    let events = events
        .iter()
        .filter(|event| event.kind == EventKind::ForeignProcess);
    let name = |event: &Event| {
        let process: Vec<&str> = event.detail.split(' ').take(2).collect();
        process.join(" ")
    };
    events.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the decision for these process lists, the last of which repeats, and the number of pauses.
    fn judged(busy: Busy, known: &[u32], looks: &[&[u32]]) -> (Contention, u32) {
        let (mut left, mut last) = (looks.iter(), BTreeSet::new());
        let look = || {
            if let Some(next) = left.next() {
                last = next.iter().copied().collect();
            }
            last.clone()
        };
        let mut pauses = 0;
        let known = known.iter().copied().collect();
        let decision = contention(busy, &known, look, |_| {
            pauses += 1;
            true
        });
        (decision, pauses)
    }

    fn pids(pids: &[u32]) -> BTreeSet<u32> {
        pids.iter().copied().collect()
    }

    #[test]
    fn nobody_is_waited_for_where_nobody_is() {
        for busy in [Busy::Warn, Busy::Wait, Busy::Fail] {
            assert_eq!(judged(busy, &[], &[&[]]), (Contention::Tolerated(pids(&[])), 0));
        }
    }

    #[test]
    fn a_worker_that_is_about_to_leave_the_list_is_no_stranger() {
        for busy in [Busy::Warn, Busy::Fail] {
            assert_eq!(
                judged(busy, &[], &[&[7], &[7], &[]]),
                (Contention::Tolerated(pids(&[])), 2)
            );
        }
    }

    #[test]
    fn one_that_stays_is_named_or_refused() {
        assert_eq!(
            judged(Busy::Warn, &[], &[&[7]]),
            (Contention::Tolerated(pids(&[7])), 8)
        );
        assert_eq!(
            judged(Busy::Warn, &[7], &[&[7]]),
            (Contention::Tolerated(pids(&[7])), 0)
        );
        assert_eq!(
            judged(Busy::Fail, &[], &[&[7]]),
            (Contention::Refused(pids(&[7])), 8)
        );
    }

    #[test]
    fn waiting_ends_when_the_gpu_is_free_or_patience_is_over() {
        assert_eq!(
            judged(Busy::Wait, &[], &[&[7], &[7, 8], &[8], &[]]),
            (Contention::Tolerated(pids(&[])), 3)
        );
        let (decision, pauses) = judged(Busy::Wait, &[7], &[&[7]]);
        assert_eq!((decision, LOOK * pauses), (Contention::Refused(pids(&[7])), WAIT));
    }

    #[test]
    fn a_run_that_is_to_stop_waits_for_nobody() {
        for busy in [Busy::Wait, Busy::Fail] {
            let decision = contention(busy, &BTreeSet::new(), || pids(&[7]), |_| false);
            assert_eq!(decision, Contention::Tolerated(pids(&[7])));
        }
    }
}
