//! Detection of interleaved runs, which expose both sides to the same changes of the machine.

use std::{collections::BTreeSet, sync::Arc};

use crate::MeasuredCell;

/// Minimum number of runs on each side. With fewer, a change of the machine between two runs would be attributed to one side.
const MIN_RUNS: usize = 3;

/// Maximum number of consecutive runs of one side. Two are allowed because B C C B is as balanced as B C B C.
const MAX_CONSECUTIVE: usize = 2;

/// Returns true if the runs behind a cell are interleaved.
pub(crate) fn is_interleaved(before: &MeasuredCell, after: &MeasuredCell) -> bool {
    let begun = |measured: &MeasuredCell| -> BTreeSet<Arc<str>> {
        let processes = measured.processes.iter();
        processes.map(|process| Arc::clone(&process.begun)).collect()
    };
    alternate(&begun(before), &begun(after))
}

/// Returns true if the start times alternate. Runs that began at the same time have no known order.
fn alternate(before: &BTreeSet<Arc<str>>, after: &BTreeSet<Arc<str>>) -> bool {
    let sides = before.iter().map(|begun| (begun, false));
    let mut order: Vec<(&Arc<str>, bool)> = sides.chain(after.iter().map(|begun| (begun, true))).collect();
    order.sort_unstable();
    let mut consecutive = order.chunk_by(|one, next| one.1 == next.1);
    before.len().min(after.len()) >= MIN_RUNS
        && before.is_disjoint(after)
        && consecutive.all(|runs| runs.len() <= MAX_CONSECUTIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses an order of runs: `b` is a run of the baseline, `c` one of the candidate.
    fn alternates(order: &str) -> bool {
        let of = |side| {
            let all = order.chars().enumerate().filter(|(_, of)| *of == side);
            all.map(|(at, _)| Arc::from(format!("2026-01-01T00:00:{at:02}Z")))
                .collect()
        };
        alternate(&of('b'), &of('c'))
    }

    #[test]
    fn sides_take_turns_at_least_three_times_with_two_runs_on_end_at_most() {
        for turns in ["bcbcbc", "bccbbccb", "cbcbcbcbcb"] {
            assert!(alternates(turns), "{turns}");
        }
        for none in ["bc", "bcbc", "bbbccc", "bcbcbccc", ""] {
            assert!(!alternates(none), "{none}");
        }
        let same = BTreeSet::from(["1", "2", "3"].map(Arc::from));
        assert!(!alternate(&same, &same));
    }
}
