//! Detection of other processes on the GPU before a cell. At that time, no worker of the run computes on the GPU.

use std::{collections::BTreeSet, time::Duration};

use mantissa_core::{Event, EventKind};

use crate::Busy;

/// Maximum time for which the driver may still list a worker after its exit. A process that is listed for longer belongs
/// to another program.
const EXIT_DELAY: Duration = Duration::from_secs(2);

/// Time limit of the wait for a free GPU.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(600);

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Other processes on the GPU, and the decision about them.
#[derive(Debug, PartialEq)]
pub(crate) enum Contention {
    /// The run continues despite the processes with these ids.
    Tolerated(BTreeSet<u32>),
    /// The run cannot continue because of the processes with these ids.
    Refused(BTreeSet<u32>),
}

/// Lists the other processes and waits as `busy` requires. `known` contains processes that were detected earlier. They
/// cannot be exiting workers, so `Warn` and `Fail` do not wait for them. `list_processes` returns an empty set if the driver does not list
/// processes. `pause` sleeps, and returns false if the run was stopped.
pub(crate) fn wait_for_free_gpu(
    busy: Busy,
    known: &BTreeSet<u32>,
    mut list_processes: impl FnMut() -> BTreeSet<u32>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Contention {
    let mut waited = Duration::ZERO;
    loop {
        let listed = list_processes();
        let limit = match busy {
            _ if listed.is_empty() => Duration::ZERO,
            Busy::Wait => MAX_WAIT,
            Busy::Warn | Busy::Fail if listed.is_subset(known) => Duration::ZERO,
            Busy::Warn | Busy::Fail => EXIT_DELAY,
        };
        if waited < limit && pause(POLL_INTERVAL) {
            waited += POLL_INTERVAL;
            continue;
        }
        return match busy {
            Busy::Wait | Busy::Fail if waited < limit => Contention::Tolerated(listed), // the run was stopped
            Busy::Wait | Busy::Fail if !listed.is_empty() => Contention::Refused(listed),
            _ => Contention::Tolerated(listed),
        };
    }
}

/// Returns the names of the other processes that a worker detected while it computed, e.g. `process 4711`.
pub(crate) fn detected_processes(events: &[Event]) -> Vec<String> {
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
    fn contention_with(busy: Busy, known: &[u32], lists: &[&[u32]]) -> (Contention, u32) {
        let (mut left, mut last) = (lists.iter(), BTreeSet::new());
        let list_processes = || {
            if let Some(next) = left.next() {
                last = next.iter().copied().collect();
            }
            last.clone()
        };
        let mut pauses = 0;
        let known = known.iter().copied().collect();
        let decision = wait_for_free_gpu(busy, &known, list_processes, |_| {
            pauses += 1;
            true
        });
        (decision, pauses)
    }

    fn pids(pids: &[u32]) -> BTreeSet<u32> {
        pids.iter().copied().collect()
    }

    #[test]
    fn a_free_gpu_causes_no_wait() {
        for busy in [Busy::Warn, Busy::Wait, Busy::Fail] {
            assert_eq!(
                contention_with(busy, &[], &[&[]]),
                (Contention::Tolerated(pids(&[])), 0)
            );
        }
    }

    #[test]
    fn an_exiting_worker_is_not_another_process() {
        for busy in [Busy::Warn, Busy::Fail] {
            assert_eq!(
                contention_with(busy, &[], &[&[7], &[7], &[]]),
                (Contention::Tolerated(pids(&[])), 2)
            );
        }
    }

    #[test]
    fn a_process_that_stays_is_tolerated_or_refused() {
        assert_eq!(
            contention_with(Busy::Warn, &[], &[&[7]]),
            (Contention::Tolerated(pids(&[7])), 8)
        );
        assert_eq!(
            contention_with(Busy::Warn, &[7], &[&[7]]),
            (Contention::Tolerated(pids(&[7])), 0)
        );
        assert_eq!(
            contention_with(Busy::Fail, &[], &[&[7]]),
            (Contention::Refused(pids(&[7])), 8)
        );
    }

    #[test]
    fn the_wait_ends_when_the_gpu_is_free_or_at_the_time_limit() {
        assert_eq!(
            contention_with(Busy::Wait, &[], &[&[7], &[7, 8], &[8], &[]]),
            (Contention::Tolerated(pids(&[])), 3)
        );
        let (decision, pauses) = contention_with(Busy::Wait, &[7], &[&[7]]);
        assert_eq!(
            (decision, POLL_INTERVAL * pauses),
            (Contention::Refused(pids(&[7])), MAX_WAIT)
        );
    }

    #[test]
    fn a_stop_request_ends_the_wait_for_a_free_gpu() {
        for busy in [Busy::Wait, Busy::Fail] {
            let decision = wait_for_free_gpu(busy, &BTreeSet::new(), || pids(&[7]), |_| false);
            assert_eq!(decision, Contention::Tolerated(pids(&[7])));
        }
    }
}
