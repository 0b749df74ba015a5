//! Other processes on the GPU: before a cell nothing of ours computes there, so whoever does is somebody else.

use std::{collections::BTreeSet, time::Duration};

use mantissa_core::Event;

use crate::Busy;

/// Kind of the events that tell of a stranger.
pub(crate) const FOREIGN: &str = "foreign-process";

/// Time that a worker's end may take to reach the driver's list. Whoever is listed longer is no worker of ours.
const LINGER: Duration = Duration::from_secs(2);

/// Longest wait for the GPU to be free: longer than most tests of a neighbour, shorter than a night.
pub(crate) const WAIT: Duration = Duration::from_secs(600);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Who computes on the GPU that is none of ours.
#[derive(Debug, PartialEq)]
pub(crate) enum Company {
    /// These may stay: their numbers.
    Tolerated(BTreeSet<u32>),
    /// The run cannot go on beside these.
    Refused(BTreeSet<u32>),
}

/// Looks who is there, and waits as `busy` says. `known` are those that were there before and are not waited for as
/// if they were a worker that is about to end. `look` gives nobody where the driver lists no processes; `pause` is
/// false when there is no more time to wait.
pub(crate) fn company(
    busy: Busy,
    known: &BTreeSet<u32>,
    mut look: impl FnMut() -> BTreeSet<u32>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Company {
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
            Busy::Wait | Busy::Fail if waited < patience => Company::Tolerated(there), // the run stops anyway
            Busy::Wait | Busy::Fail if !there.is_empty() => Company::Refused(there),
            _ => Company::Tolerated(there),
        };
    }
}

/// The strangers that a worker saw while it computed: `process 4711`.
pub(crate) fn strangers(events: &[Event]) -> Vec<String> {
    let told = events.iter().filter(|event| event.kind == FOREIGN);
    let name = |event: &Event| {
        let words: Vec<&str> = event.detail.split(' ').take(2).collect();
        words.join(" ")
    };
    told.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these looks, the last of which stays, and after how many pauses.
    fn judged(busy: Busy, known: &[u32], looks: &[&[u32]]) -> (Company, u32) {
        let (mut left, mut last) = (looks.iter(), BTreeSet::new());
        let look = || {
            if let Some(next) = left.next() {
                last = next.iter().copied().collect();
            }
            last.clone()
        };
        let mut pauses = 0;
        let known = known.iter().copied().collect();
        let company = company(busy, &known, look, |_| {
            pauses += 1;
            true
        });
        (company, pauses)
    }

    fn pids(pids: &[u32]) -> BTreeSet<u32> {
        pids.iter().copied().collect()
    }

    #[test]
    fn nobody_is_waited_for_where_nobody_is() {
        for busy in [Busy::Warn, Busy::Wait, Busy::Fail] {
            assert_eq!(judged(busy, &[], &[&[]]), (Company::Tolerated(pids(&[])), 0));
        }
    }

    #[test]
    fn a_worker_that_is_about_to_leave_the_list_is_no_stranger() {
        for busy in [Busy::Warn, Busy::Fail] {
            assert_eq!(
                judged(busy, &[], &[&[7], &[7], &[]]),
                (Company::Tolerated(pids(&[])), 2)
            );
        }
    }

    #[test]
    fn one_that_stays_is_named_or_refused() {
        assert_eq!(
            judged(Busy::Warn, &[], &[&[7]]),
            (Company::Tolerated(pids(&[7])), 8)
        );
        assert_eq!(
            judged(Busy::Warn, &[7], &[&[7]]),
            (Company::Tolerated(pids(&[7])), 0)
        );
        assert_eq!(
            judged(Busy::Fail, &[], &[&[7]]),
            (Company::Refused(pids(&[7])), 8)
        );
    }

    #[test]
    fn waiting_ends_when_the_gpu_is_free_or_patience_is_over() {
        assert_eq!(
            judged(Busy::Wait, &[], &[&[7], &[7, 8], &[8], &[]]),
            (Company::Tolerated(pids(&[])), 3)
        );
        let (company, pauses) = judged(Busy::Wait, &[7], &[&[7]]);
        assert_eq!((company, LOOK * pauses), (Company::Refused(pids(&[7])), WAIT));
    }

    #[test]
    fn a_run_that_is_to_stop_waits_for_nobody() {
        for busy in [Busy::Wait, Busy::Fail] {
            let company = company(busy, &BTreeSet::new(), || pids(&[7]), |_| false);
            assert_eq!(company, Company::Tolerated(pids(&[7])));
        }
    }
}
