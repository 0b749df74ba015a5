//! Grouping of the records of a run by cell.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    path::Path,
    sync::Arc,
};

use mantissa_core::{CellId, Fingerprint, Record, input_difference};

use crate::{GateError, MeasuredCell, Process, fingerprints::same_program_and_machine};

/// Groups the records of a run by cell. The records are added in the order of the file.
pub(crate) struct CellCollector {
    /// True for a baseline, which contains only one attempt per process.
    is_baseline: bool,
    run_started: Arc<str>,
    cells: HashMap<CellId, MeasuredCell>,
    /// Fingerprint of the machine and the program of the records so far.
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// Contradiction between a record and the records before it.
pub(crate) enum Problem {
    ManyMachines,
    Malformed(String),
}

impl Problem {
    /// Returns the error for a line of `records.jsonl`.
    pub(crate) fn at(self, path: &Path, line: usize) -> GateError {
        let path = path.to_owned();
        match self {
            Self::ManyMachines => GateError::ManyMachines { path, line },
            Self::Malformed(reason) => GateError::Malformed { path, line, reason },
        }
    }
}

impl CellCollector {
    /// Creates a collector without cells, for a run that started at `run_started`.
    pub(crate) fn new(is_baseline: bool, run_started: &str) -> Self {
        Self {
            is_baseline,
            run_started: run_started.into(),
            cells: HashMap::new(),
            fingerprint: None,
        }
    }

    /// Adds a record. A later attempt replaces an earlier one.
    pub(crate) fn add(&mut self, record: Record) -> Result<(), Problem> {
        match &self.fingerprint {
            Some(first) if !same_program_and_machine(first, &record.fingerprint) => {
                return Err(Problem::ManyMachines);
            }
            // Keep a fingerprint with a GPU: a run can also contain cells on a CPU, whose fingerprints do not have one.
            Some(first) if first.gpu.is_some() || record.fingerprint.gpu.is_none() => {}
            _ => self.fingerprint = Some(record.fingerprint.clone()),
        }
        let cell = match self.cells.entry(record.cell.id.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(MeasuredCell {
                cell: record.cell.clone(),
                command: record.command.clone(),
                inputs: record.inputs.clone(),
                data: record.data.clone(),
                processes: vec![],
            }),
        };
        let id = &cell.cell.id;
        if let Some(difference) = input_difference(cell.inputs.as_deref(), record.inputs.as_deref()) {
            return Err(Problem::Malformed(format!(
                "cell {id} has other input files than in an earlier record: {difference}"
            )));
        }
        let process = Process::of(record, &self.run_started);
        let mut existing = cell.processes.iter_mut();
        match existing.find(|existing| existing.repeat == process.repeat) {
            Some(existing) if self.is_baseline || existing.attempt == process.attempt => {
                return Err(Problem::Malformed(format!(
                    "process {} of cell {id} occurs twice",
                    process.repeat
                )));
            }
            Some(existing) if existing.attempt < process.attempt => *existing = process,
            Some(_) => {}
            None => cell.processes.push(process),
        }
        Ok(())
    }

    /// Returns the cells. The processes of each cell are sorted by number.
    pub(crate) fn into_cells(self) -> BTreeMap<CellId, MeasuredCell> {
        let mut cells: BTreeMap<CellId, MeasuredCell> = self.cells.into_iter().collect();
        for measured in cells.values_mut() {
            measured.processes.sort_by_key(|process| process.repeat);
        }
        cells
    }
}
