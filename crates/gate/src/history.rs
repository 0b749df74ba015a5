//! History of earlier runs, with one line per cell and run. Noise levels and change points are computed from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use mantissa_analysis::{Floor, GATE_REPEATS, Scale, noise_fence};
use mantissa_core::{CellId, MetricName, SCHEMA_VERSION};
use mantissa_run_folder::{FolderError, JsonLine, JsonLines};
use serde::{Deserialize, Serialize};

use crate::{Fences, Gate, GateError, RunMeasurements, machine_name, setting_labels::SettingLabels};

/// Entry of a history: the medians of one cell in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of the record format.
    pub schema: u32,
    /// Name of the run's folder.
    pub run: String,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// Git revision of the program that ran.
    pub revision: Option<String>,
    /// Machine, backend and profile, see [`machine_name`].
    pub machine: String,
    /// The cell.
    pub cell: CellId,
    /// Suite of the cell.
    pub suite: String,
    /// Workload of the cell.
    pub workload: String,
    /// Axis values that distinguish the cell from the other cells of its workload.
    pub setting: String,
    /// Outcome of the run's gate.
    pub gate: Gate,
    /// Identifier of the input files, see [`MeasuredCell::input_id`]; absent in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_id: Option<String>,
    /// Number of completed processes.
    pub processes: usize,
    /// Median of each metric over the processes, in the metric's unit. Metrics that were not measured are omitted.
    pub medians: BTreeMap<MetricName, f64>,
}

/// Runs with the outcome of their gates, ordered by start time.
#[derive(Debug, Clone)]
pub struct History {
    path: PathBuf,
    entries: Vec<Entry>,
}

/// Values of one metric of one cell on one machine, one per run.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    /// Latest entry, which identifies the cell.
    pub latest: &'a Entry,
    /// The metric.
    pub metric: MetricName,
    /// Runs that have the metric, each with the median of the metric over its processes.
    pub runs: Vec<(&'a Entry, f64)>,
}

impl JsonLine for Entry {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl History {
    /// Default file name of a history, next to the baselines.
    pub const FILE: &str = "history.jsonl";

    /// Reads a history. A missing file is an empty history.
    ///
    /// # Errors
    /// Fails if the file is empty, damaged, truncated, written by a later version, or contains a run twice.
    pub fn read(path: &Path) -> Result<Self, GateError> {
        let mut history = Self::empty(path);
        let mut lines = match JsonLines::open(path) {
            Err(FolderError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(history);
            }
            opened => opened?,
        };
        history.entries = lines.by_ref().collect::<Result<_, _>>()?;
        if lines.is_truncated() {
            return Err(history.malformed(lines.line(), "it is truncated".to_owned()));
        }
        if history.entries.is_empty() {
            return Err(GateError::EmptyHistory {
                path: path.to_owned(),
            });
        }
        let mut cells = BTreeSet::new();
        for (index, entry) in history.entries.iter().enumerate() {
            if !cells.insert((&entry.machine, &entry.run, &entry.started, &entry.cell)) {
                let reason = format!("cell {} of run `{}` occurs twice", entry.cell, entry.run);
                return Err(history.malformed(index + 1, reason));
            }
        }
        // After a merge of branches, the lines can be in any order.
        history.entries.sort_by(|a, b| a.started.cmp(&b.started));
        Ok(history)
    }

    fn empty(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            entries: vec![],
        }
    }

    fn malformed(&self, line: usize, reason: String) -> GateError {
        GateError::Malformed {
            path: self.path.clone(),
            line,
            reason,
        }
    }

    /// Checks that a run can be appended.
    ///
    /// # Errors
    /// Fails if the history already contains the run, or if the run started before the latest run of the same machine.
    pub fn check(&self, run: &RunMeasurements) -> Result<(), GateError> {
        let machine = machine_name(run);
        let mut of_machine = self.entries.iter().filter(|entry| entry.machine == machine);
        let is_run = |entry: &Entry| (&entry.run, &entry.started) == (&run.name, &run.started);
        if of_machine.clone().any(is_run) {
            return Err(GateError::KnownRun {
                run: run.name.clone(),
                path: self.path.clone(),
            });
        }
        match of_machine.next_back() {
            Some(last) if run.started < last.started => Err(GateError::OutOfOrder {
                run: run.name.clone(),
                started: run.started.clone(),
                last: last.run.clone(),
                last_started: last.started.clone(),
                path: self.path.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Appends a run and the outcome of its gate to a history file. Returns the number of new entries. Locks the file, so that concurrent
    /// appends wait.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read) and [`check`](Self::check), or fails if the file cannot be written. The file is then
    /// unchanged.
    pub fn append(path: &Path, run: &RunMeasurements, gate: Gate) -> Result<usize, GateError> {
        let write_error = |error| GateError::write(path)(error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(write_error)?;
        }
        let is_new = !path.exists();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(write_error)?;
        file.lock().map_err(write_error)?;
        let length = file.metadata().map_err(write_error)?.len();
        // `read` rejects an empty file, but this file was created above.
        let history = match is_new {
            true if length == 0 => Self::empty(path),
            _ => Self::read(path)?,
        };
        history.check(run)?;
        let entries = entries(run, gate);
        let mut text = String::new();
        for entry in &entries {
            text.push_str(&serde_json::to_string(entry).map_err(|error| write_error(error.into()))?);
            text.push('\n');
        }
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            // If the disk is full, remove the partial lines, and the file if it would be empty.
            let _ = file.set_len(length);
            if length == 0 {
                let _ = fs::remove_file(path);
            }
            return Err(write_error(error));
        }
        Ok(entries.len())
    }

    /// Returns the path of the history, which does not have to exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the fence (usual size of changes between runs, see [`noise_fence`]) of each cell and metric on the machine of `run`. Uses
    /// only runs that passed the gate with at least [`GATE_REPEATS`] processes. Omits metrics with too few such runs.
    pub fn fences(&self, run: &RunMeasurements) -> Fences {
        let machine = machine_name(run);
        let series = self
            .series()
            .into_iter()
            .filter(|series| series.latest.machine == machine);
        let fence = |series: Series<'_>| {
            let fence = series.fence(Floor::of(series.metric)?.scale)?;
            Some(((series.latest.cell.clone(), series.metric), fence))
        };
        series.filter_map(fence).collect()
    }

    /// Returns all series, sorted by machine, cell and metric.
    pub fn series<'a>(&'a self) -> Vec<Series<'a>> {
        let mut series: BTreeMap<(&str, &CellId, MetricName), Series<'a>> = BTreeMap::new();
        for entry in &self.entries {
            for (&metric, &value) in &entry.medians {
                let key = (entry.machine.as_str(), &entry.cell, metric);
                let found = series.entry(key).or_insert_with(|| Series {
                    latest: entry,
                    metric,
                    runs: vec![],
                });
                found.latest = entry;
                found.runs.push((entry, value));
            }
        }
        // Remove runs with other data or weights than the latest run, because they are not comparable.
        let comparable = |mut series: Series<'a>| {
            let latest = &series.latest.input_id;
            series.runs.retain(|(entry, _)| {
                latest.is_none() || entry.input_id.is_none() || entry.input_id == *latest
            });
            series
        };
        series.into_values().map(comparable).collect()
    }
}

impl Series<'_> {
    /// Returns the fence of the metric (see [`noise_fence`]), from the runs that passed the gate with at least [`GATE_REPEATS`] processes.
    pub fn fence(&self, scale: Scale) -> Option<f64> {
        let is_reliable = |entry: &Entry| entry.gate == Gate::Passed && entry.processes >= GATE_REPEATS;
        let passed = self.runs.iter().filter(|(entry, _)| is_reliable(entry));
        let values: Vec<f64> = passed.map(|(_, value)| *value).collect();
        noise_fence(&values, scale)
    }
}

/// Returns an entry for every cell of a run that was tried.
fn entries(run: &RunMeasurements, gate: Gate) -> Vec<Entry> {
    let machine = machine_name(run);
    let settings = SettingLabels::of(run.cells.values());
    let tried = run.cells.values().filter(|measured| measured.was_tried());
    tried
        .map(|measured| Entry {
            schema: SCHEMA_VERSION,
            run: run.name.clone(),
            started: run.started.clone(),
            revision: run.fingerprint.revision.clone(),
            machine: machine.clone(),
            cell: measured.cell.id.clone(),
            suite: measured.cell.suite.clone(),
            workload: measured.cell.workload.name.clone(),
            setting: settings.label(measured),
            gate,
            input_id: measured.input_id(),
            processes: measured.completed().count(),
            medians: measured.medians(),
        })
        .collect()
}
