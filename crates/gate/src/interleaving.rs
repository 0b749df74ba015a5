//! Detection of interleaved runs: the runs of baseline and candidate alternate in time, so both sides see the same changes of the machine,
//! such as those of clocks and load.

use std::{collections::BTreeSet, sync::Arc};

use crate::MeasuredCell;

/// Minimum number of runs on each side. With fewer, a change of the machine between two runs could look like a difference between the sides.
const MIN_RUNS: usize = 3;

/// Maximum number of consecutive runs of one side. Two are allowed because B C C B is as balanced as B C B C (B: baseline, C: candidate).
const MAX_CONSECUTIVE: usize = 2;

/// Returns true if the runs that measured a cell are interleaved.
pub(crate) fn is_interleaved(before: &MeasuredCell, after: &MeasuredCell) -> bool {
    let start_times = |measured: &MeasuredCell| -> BTreeSet<Arc<str>> {
        let processes = measured.processes.iter();
        processes
            .map(|process| Arc::clone(&process.run_started))
            .collect()
    };
    alternate(&start_times(before), &start_times(after))
}

/// Returns true if the start times alternate. Returns false if a start time occurs on both sides, because the order is then unknown.
fn alternate(before: &BTreeSet<Arc<str>>, after: &BTreeSet<Arc<str>>) -> bool {
    let sides = before.iter().map(|start| (start, false));
    let mut order: Vec<(&Arc<str>, bool)> = sides.chain(after.iter().map(|start| (start, true))).collect();
    order.sort_unstable();
    let mut consecutive = order.chunk_by(|one, next| one.1 == next.1);
    before.len().min(after.len()) >= MIN_RUNS
        && before.is_disjoint(after)
        && consecutive.all(|runs| runs.len() <= MAX_CONSECUTIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if runs in this order alternate: `b` is a run of the baseline, `c` one of the candidate.
    fn alternates(order: &str) -> bool {
        let start_times = |side| {
            let all = order.chars().enumerate().filter(|(_, run)| *run == side);
            all.map(|(second, _)| Arc::from(format!("2026-01-01T00:00:{second:02}Z")))
                .collect()
        };
        alternate(&start_times('b'), &start_times('c'))
    }

    #[test]
    fn interleaved_sides_have_three_runs_and_at_most_two_in_a_row() {
        for interleaved in ["bcbcbc", "bccbbccb", "cbcbcbcbcb"] {
            assert!(alternates(interleaved), "{interleaved}");
        }
        for order in ["bc", "bcbc", "bbbccc", "bcbcbccc", ""] {
            assert!(!alternates(order), "{order}");
        }
        let simultaneous = BTreeSet::from(["1", "2", "3"].map(Arc::from));
        assert!(!alternate(&simultaneous, &simultaneous));
    }
}
