//! Measurements of a run or a baseline, as a comparison needs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use mantissa_core::{Backend, CellId, Fingerprint, Profile};
use mantissa_run_folder::{RECORDS_FILE, RunReader, read_json};

use crate::{
    BaselineInfo, GateError, MeasuredCell, Mismatch, Part, Process,
    cell_collector::{CellCollector, Problem},
    fingerprints::{describe_program, same_program, same_program_and_machine},
};

/// Measurements of a run or a baseline.
#[derive(Debug, Clone)]
pub struct RunMeasurements {
    /// Name of the run folder or the baseline.
    pub name: String,
    /// Path of the folder.
    pub folder: PathBuf,
    /// Profile of the run.
    pub profile: Profile,
    /// Fingerprint of the machine and the program, the same for all records.
    pub fingerprint: Fingerprint,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// All cells that were tried or skipped, by identity.
    pub cells: BTreeMap<CellId, MeasuredCell>,
}

impl RunMeasurements {
    /// Reads the folder of a run or of a baseline.
    ///
    /// # Errors
    /// Fails if:
    /// - the folder is neither a run nor a baseline,
    /// - a file is damaged, truncated, empty or of a later version (the error contains the line),
    /// - a process occurs twice,
    /// - a baseline lacks some of its records,
    /// - the records come from different machines or builds.
    pub fn read(folder: &Path) -> Result<Self, GateError> {
        let reader = RunReader::new(folder);
        let info_path = folder.join(BaselineInfo::FILE);
        let is_baseline = info_path.is_file();
        let (name, profile, started, declared) = if is_baseline {
            let saved: BaselineInfo = read_json(&info_path)?;
            (saved.name, saved.profile, saved.started, Some(saved.records))
        } else {
            let started = reader.environment()?.started;
            (reader.name(), reader.plan()?.profile, started, None)
        };
        let mut cells = CellCollector::new(is_baseline, &started);
        let mut records = reader.records()?;
        let path = folder.join(RECORDS_FILE);
        while let Some(record) = records.next() {
            cells
                .add(record?)
                .map_err(|problem| problem.at(&path, records.line()))?;
        }
        if records.is_truncated() && !is_baseline {
            return Err(GateError::Truncated { path });
        }
        let malformed = |line, reason| Problem::Malformed(reason).at(&path, line);
        if records.is_truncated() {
            return Err(malformed(records.line(), "it is truncated".to_owned()));
        }
        let Some(fingerprint) = cells.fingerprint.take() else {
            return Err(GateError::Empty { path });
        };
        let measured = Self {
            name,
            folder: folder.to_owned(),
            profile,
            fingerprint,
            started,
            cells: cells.into_cells(),
        };
        match declared.filter(|declared| *declared != measured.records()) {
            Some(declared) => Err(malformed(
                measured.records(),
                format!(
                    "the file ends here, but `{}` declares {declared} records",
                    BaselineInfo::FILE
                ),
            )),
            None => Ok(measured),
        }
    }

    /// Returns the backends of the cells.
    pub fn backends(&self) -> BTreeSet<Backend> {
        let cells = self.cells.values();
        cells.map(|measured| measured.cell.setting.backend()).collect()
    }

    /// Returns the total number of processes of all cells.
    pub fn records(&self) -> usize {
        self.cells.values().map(|measured| measured.processes.len()).sum()
    }

    /// Reads interleaved runs and joins them. In each cell, the processes of the second folder follow those of the first.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read). Fails if the runs differ in machine, program, profile or data, if a folder is listed
    /// twice, or if `folders` is empty.
    pub fn read_all(folders: &[PathBuf]) -> Result<Self, GateError> {
        let [first, others @ ..] = folders else {
            return Err(GateError::NoRun);
        };
        let mut seen = BTreeSet::new();
        if let Some(duplicate) = folders.iter().find(|folder| {
            let path = folder.canonicalize().unwrap_or_else(|_| (*folder).clone());
            !seen.insert(path)
        }) {
            return Err(GateError::DuplicateFolder {
                path: duplicate.clone(),
            });
        }
        let mut all = Self::read(first)?;
        for folder in others {
            let more = Self::read(folder)?;
            more.check_joins(&all)?;
            for (id, measured) in &more.cells {
                all.cells.entry(id.clone()).or_insert_with(|| MeasuredCell {
                    processes: vec![],
                    ..measured.clone()
                });
            }
            all.extend(more);
        }
        Ok(all)
    }

    /// Checks that the processes can be joined to those of another run. Program, machine, profile and data must be equal.
    ///
    /// # Errors
    /// Fails if they differ. The error contains the differences.
    pub fn check_joins(&self, other: &Self) -> Result<(), GateError> {
        // The runs can have different cells and therefore different backends, so the backends are not compared.
        let mismatches = Mismatch::between(other, self);
        let other_data = mismatches.iter().any(|mismatch| mismatch.part == Part::Data);
        if same_program_and_machine(&other.fingerprint, &self.fingerprint)
            && other.profile == self.profile
            && !other_data
        {
            return Ok(());
        }
        Err(match same_program(&other.fingerprint, &self.fingerprint) {
            true => GateError::Mismatch { mismatches },
            false => GateError::DifferentPrograms {
                runs: [other.name.clone(), self.name.clone()],
                programs: [other, self].map(|measured| describe_program(&measured.fingerprint)),
            },
        })
    }

    /// Removes the processes of these cells, so that the cells can be measured again.
    pub fn clear_processes(&mut self, cells: &BTreeSet<CellId>) {
        for (id, measured) in &mut self.cells {
            if cells.contains(id) {
                measured.processes.clear();
            }
        }
    }

    /// Appends the processes of another run. Ignores cells that are missing in `self`.
    pub fn extend(&mut self, more: Self) {
        for (id, added) in more.cells {
            let Some(existing) = self.cells.get_mut(&id) else {
                continue;
            };
            let offset = existing
                .processes
                .iter()
                .map(|process| process.repeat + 1)
                .max()
                .unwrap_or_default();
            existing
                .processes
                .extend(added.processes.into_iter().map(|process| Process {
                    repeat: offset + process.repeat,
                    ..process
                }));
        }
    }

    /// Returns the smallest number of processes of any cell that was tried.
    pub fn repeats(&self) -> usize {
        let tried = self.cells.values().filter(|measured| measured.was_tried());
        let processes = tried.map(|measured| measured.processes.len());
        processes.min().unwrap_or_default()
    }
}
