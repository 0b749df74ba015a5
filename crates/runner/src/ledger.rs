//! Summary of the records of a run folder: the cells that have yet to run, and the violated expectations.

use std::collections::BTreeMap;

use mantissa_core::{Cell, CellId, Event, EventKind, InputFile, Record, Status};

use crate::Violation;

/// Last attempt at every cell and repeat.
#[derive(Debug, Default)]
pub struct Ledger {
    last: BTreeMap<(CellId, u32), Entry>,
    /// Input files of each cell, from its first record that lists them.
    inputs: BTreeMap<CellId, Vec<InputFile>>,
    records: usize,
}

#[derive(Debug)]
struct Entry {
    attempt: u32,
    status: Status,
    reason: Option<String>,
    /// Index of the record in the file.
    index: usize,
    violations: Vec<Violation>,
}

/// Returns true if a cell with this status is done. Failures and timeouts may have external causes and are tried again.
pub(crate) fn is_final(status: Status) -> bool {
    match status {
        Status::Ok | Status::Diverged | Status::Oom | Status::Skipped => true,
        Status::Failed | Status::Timeout => false,
    }
}

impl Ledger {
    /// Adds a record. Of several attempts at the same repeat, the one with the highest number counts.
    pub(crate) fn add(&mut self, record: &Record) {
        let key = (record.cell.id.clone(), record.repeat);
        let index = self.records;
        self.records += 1;
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
            index,
            violations: violations(record),
        };
        self.last.insert(key, entry);
    }

    /// Returns the input files of a cell from its first record that lists them; `None` without such a record.
    pub(crate) fn inputs_of(&self, cell: &Cell) -> Option<&[InputFile]> {
        self.inputs.get(&cell.id).map(Vec::as_slice)
    }

    /// Returns the number of records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Returns true if a repeat of a cell has yet to run: it has no record, or its last attempt is `failed` or `timeout`.
    pub(crate) fn needs_run(&self, cell: &Cell, repeat: u32) -> bool {
        let entry = self.last.get(&(cell.id.clone(), repeat));
        !entry.is_some_and(|entry| is_final(entry.status))
    }

    /// Returns true if the last attempt of a repeat of a cell ran to its end.
    pub(crate) fn ran(&self, cell: &Cell) -> bool {
        let repeats = (cell.id.clone(), 0)..=(cell.id.clone(), u32::MAX);
        let mut entries = self.last.range(repeats).map(|(_, entry)| entry);
        entries.any(|entry| matches!(entry.status, Status::Ok | Status::Diverged))
    }

    /// Returns the number of the next attempt.
    pub(crate) fn next_attempt(&self, cell: &Cell, repeat: u32) -> u32 {
        let entry = self.last.get(&(cell.id.clone(), repeat));
        entry.map_or(0, |entry| entry.attempt.saturating_add(1))
    }

    /// Returns the reason for skipping a cell if the last attempt of every repeat was skipped.
    pub(crate) fn skipped(&self, cell: &Cell) -> Option<&str> {
        let repeats = (cell.id.clone(), 0)..=(cell.id.clone(), u32::MAX);
        let mut entries = self.last.range(repeats).map(|(_, entry)| entry);
        let first = entries.next()?;
        let all_skipped =
            first.status == Status::Skipped && entries.all(|entry| entry.status == Status::Skipped);
        all_skipped.then(|| first.reason.as_deref().unwrap_or_default())
    }

    /// Returns the violated expectations of the last attempts, in the order of their records.
    pub fn violations(&self) -> Vec<Violation> {
        let mut entries: Vec<&Entry> = self.last.values().collect();
        entries.sort_by_key(|entry| entry.index);
        entries
            .into_iter()
            .flat_map(|entry| entry.violations.iter().cloned())
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
        records.iter().for_each(|record| ledger.add(record));
        ledger
    }

    #[test]
    fn the_highest_attempt_counts_in_any_order_of_records() {
        let mut failed = testing::record(Status::Failed, 0);
        expect::add_violation_events(&testing::plan(1), &mut failed);
        let retry = testing::record(Status::Ok, 1);
        assert_eq!(ledger(std::slice::from_ref(&failed)).violations().len(), 1);
        assert!(ledger(&[failed.clone(), retry.clone()]).violations().is_empty());
        assert!(ledger(&[retry, failed]).violations().is_empty());
    }

    #[test]
    fn only_failed_and_timed_out_cells_are_run_again() {
        let cell = testing::cell(64);
        assert!(ledger(&[]).needs_run(&cell, 0));
        for (status, expected) in [
            (Status::Ok, false),
            (Status::Diverged, false),
            (Status::Oom, false),
            (Status::Skipped, false),
            (Status::Failed, true),
            (Status::Timeout, true),
        ] {
            let ledger = ledger(&[testing::record(status, 2)]);
            assert_eq!(ledger.needs_run(&cell, 0), expected, "{status}");
            assert_eq!(
                (ledger.next_attempt(&cell, 0), ledger.next_attempt(&cell, 1)),
                (3, 0)
            );
        }
    }
}
