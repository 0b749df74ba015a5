//! Whether both sides saw the same moments of the machine.

use std::{collections::BTreeSet, sync::Arc};

use crate::MeasuredCell;

/// Fewer runs on a side are no turns: what the machine does between one run and the next would count for a side's.
const LEAST: usize = 3;

/// More runs of a side on end are no turns. Two are: B C C B is as fair as B C B C.
const MOST_ON_END: usize = 2;

/// Whether the runs behind a cell took turns.
pub(crate) fn in_turns(before: &MeasuredCell, after: &MeasuredCell) -> bool {
    let begun = |measured: &MeasuredCell| -> BTreeSet<Arc<str>> {
        let processes = measured.processes.iter();
        processes.map(|process| Arc::clone(&process.begun)).collect()
    };
    alternate(&begun(before), &begun(after))
}

/// Runs that began at the same time are in no known order.
fn alternate(before: &BTreeSet<Arc<str>>, after: &BTreeSet<Arc<str>>) -> bool {
    let sides = before.iter().map(|begun| (begun, false));
    let mut order: Vec<(&Arc<str>, bool)> = sides.chain(after.iter().map(|begun| (begun, true))).collect();
    order.sort_unstable();
    let mut on_end = order.chunk_by(|one, next| one.1 == next.1);
    before.len().min(after.len()) >= LEAST
        && before.is_disjoint(after)
        && on_end.all(|runs| runs.len() <= MOST_ON_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b` a run of the baseline, `c` one of the candidate, in the order in which they began.
    fn taken(order: &str) -> bool {
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
            assert!(taken(turns), "{turns}");
        }
        for none in ["bc", "bcbc", "bbbccc", "bcbcbccc", ""] {
            assert!(!taken(none), "{none}");
        }
        let same = BTreeSet::from(["1", "2", "3"].map(Arc::from));
        assert!(!alternate(&same, &same));
    }
}
