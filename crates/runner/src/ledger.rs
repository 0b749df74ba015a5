//! Summary of the records of a run folder: which cells are left to run and which expectations are violated.

use std::collections::BTreeMap;

use mantissa_core::{Cell, CellId, Event, EventKind, InputFile, Record, Status};

use crate::Violation;

/// Last attempt at every cell and repeat.
#[derive(Debug, Default)]
pub struct Ledger {
    last: BTreeMap<(CellId, u32), Entry>,
    /// Input files of each cell, from its first record that lists them.
    inputs: BTreeMap<CellId, Vec<InputFile>>,
    noted: usize,
}

#[derive(Debug)]
struct Entry {
    attempt: u32,
    status: Status,
    reason: Option<String>,
    /// Index of the record.
    place: usize,
    broken: Vec<Violation>,
}

/// Returns true if a cell with this status is done. Failures and timeouts may have external causes and are tried again.
pub(crate) fn is_final(status: Status) -> bool {
    match status {
        Status::Ok | Status::Diverged | Status::Oom | Status::Skipped => true,
        Status::Failed | Status::Timeout => false,
    }
}

impl Ledger {
    /// Adds a record. The later of two attempts counts.
    pub(crate) fn note(&mut self, record: &Record) {
        let key = (record.cell.id.clone(), record.repeat);
        let place = self.noted;
        self.noted += 1;
        if let Some(inputs) = &record.inputs {
            self.inputs
                .entry(record.cell.id.clone())
                .or_insert_with(|| inputs.clone());
        }
        if self
            .last
            .get(&key)
            .is_some_and(|entry| entry.attempt > record.attempt)
        {
            return;
        }
        let entry = Entry {
            attempt: record.attempt,
            status: record.status,
            reason: record.reason.clone(),
            place,
            broken: violations(record),
        };
        self.last.insert(key, entry);
    }

    /// Returns the input files of a cell from its first record that lists them; `None` without such a record.
    pub(crate) fn inputs_of(&self, cell: &Cell) -> Option<&[InputFile]> {
        self.inputs.get(&cell.id).map(Vec::as_slice)
    }

    /// Returns the number of records.
    pub fn records(&self) -> usize {
        self.noted
    }

    /// Returns true if a repeat of a cell is not done: without a record, or with a failure or timeout.
    pub(crate) fn lacks(&self, cell: &Cell, repeat: u32) -> bool {
        let entry = self.last.get(&(cell.id.clone(), repeat));
        !entry.is_some_and(|entry| is_final(entry.status))
    }

    /// Returns the number of the next attempt.
    pub(crate) fn next_attempt(&self, cell: &Cell, repeat: u32) -> u32 {
        let entry = self.last.get(&(cell.id.clone(), repeat));
        entry.map_or(0, |entry| entry.attempt.saturating_add(1))
    }

    /// Returns the reason for skipping a cell if the last attempt of every repeat was skipped.
    pub(crate) fn skipped(&self, cell: &Cell) -> Option<&str> {
        let of_cell = (cell.id.clone(), 0)..=(cell.id.clone(), u32::MAX);
        let mut entries = self.last.range(of_cell).map(|(_, entry)| entry);
        let first = entries.next()?;
        let all = first.status == Status::Skipped && entries.all(|entry| entry.status == Status::Skipped);
        all.then(|| first.reason.as_deref().unwrap_or_default())
    }

    /// Returns the violated expectations of the last attempts, in the order of their records.
    pub fn violations(&self) -> Vec<Violation> {
        let mut entries: Vec<&Entry> = self.last.values().collect();
        entries.sort_by_key(|entry| entry.place);
        entries
            .into_iter()
            .flat_map(|entry| entry.broken.iter().cloned())
            .collect()
    }
}

/// Returns the violated expectations that a record lists as events.
fn violations(record: &Record) -> Vec<Violation> {
    let marks = record
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Expectation);
    let violation = |event: &Event| Violation {
        cell: record.cell.id.clone(),
        name: format!("{} {}", record.cell.workload.name, record.cell.setting),
        what: event.detail.clone(),
    };
    marks.map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{expect, testing};

    fn ledger(records: &[Record]) -> Ledger {
        let mut ledger = Ledger::default();
        records.iter().for_each(|record| ledger.note(record));
        ledger
    }

    #[test]
    fn only_the_last_attempt_counts_in_whatever_order_they_come() {
        let mut failed = testing::record(Status::Failed, 0);
        expect::mark(&testing::plan(1), &mut failed);
        let again = testing::record(Status::Ok, 1);
        assert_eq!(ledger(std::slice::from_ref(&failed)).violations().len(), 1);
        assert!(ledger(&[failed.clone(), again.clone()]).violations().is_empty());
        assert!(ledger(&[again, failed]).violations().is_empty());
    }

    #[test]
    fn failures_and_timeouts_are_lacking_and_other_ends_are_not() {
        let cell = testing::cell(64);
        assert!(ledger(&[]).lacks(&cell, 0));
        for (status, lacking) in [
            (Status::Ok, false),
            (Status::Diverged, false),
            (Status::Oom, false),
            (Status::Skipped, false),
            (Status::Failed, true),
            (Status::Timeout, true),
        ] {
            let ledger = ledger(&[testing::record(status, 2)]);
            assert_eq!(ledger.lacks(&cell, 0), lacking, "{status}");
            assert_eq!(
                (ledger.next_attempt(&cell, 0), ledger.next_attempt(&cell, 1)),
                (3, 0)
            );
        }
    }
}
