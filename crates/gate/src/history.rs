//! The runs that came before, a line a cell of a run, from which noise and changes are learned.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use mantissa_analysis::{Floor, GATE_REPEATS, Scale, noise_fence};
use mantissa_core::{CellId, MetricName, SCHEMA_VERSION, read_regular};
use serde::{Deserialize, Serialize};

use crate::{Fences, Gate, GateError, Measured, compare::Settings, machine_name, measured::Version};

/// A cell of a run that was gated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of the record format.
    pub schema: u32,
    /// Name of the run's folder.
    pub run: String,
    /// When the run was begun: RFC 3339, UTC.
    pub started: String,
    /// Git revision of the program that ran.
    pub revision: Option<String>,
    /// Machine, backend and profile, see [`machine_name`].
    pub machine: String,
    /// The cell.
    pub cell: CellId,
    /// Its suite.
    pub suite: String,
    /// Its workload.
    pub workload: String,
    /// What tells its setting from those of the workload's other cells.
    pub setting: String,
    /// How the run's gate ended.
    pub gate: Gate,
    /// Identifier of the input files, see [`MeasuredCell::input_id`]; absent in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_id: Option<String>,
    /// Processes that ran to their end.
    pub processes: usize,
    /// Medians over them, in the metrics' units; what could not be had is not there.
    pub medians: BTreeMap<MetricName, f64>,
}

/// Gated runs in the order in which they were begun.
#[derive(Debug, Clone)]
pub struct History {
    path: PathBuf,
    entries: Vec<Entry>,
}

/// The values of a metric of a cell on a machine, run by run.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    /// The latest entry, which names it.
    pub latest: &'a Entry,
    /// The metric.
    pub metric: MetricName,
    /// The runs that have it, with its median.
    pub runs: Vec<(&'a Entry, f64)>,
}

impl History {
    /// What a history is called beside baselines.
    pub const FILE: &str = "history.jsonl";

    /// Reads a history; one that is not there is empty.
    ///
    /// # Errors
    /// A file that is empty, damaged, was cut, is of a later version or has a run twice.
    pub fn read(path: &Path) -> Result<Self, GateError> {
        let mut history = Self::none(path);
        let text =
            match read_regular(path).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other)) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(history),
                Err(error) => return Err(GateError::read(path)(error)),
            };
        if text.trim().is_empty() {
            return Err(GateError::EmptyHistory {
                path: path.to_owned(),
            });
        }
        if !text.ends_with('\n') {
            let line = text.lines().count();
            return Err(history.malformed(line, "the line was cut".to_owned()));
        }
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let malformed = |error: serde_json::Error| history.malformed(index + 1, error.to_string());
            let version: Version = serde_json::from_str(line).map_err(malformed)?;
            if let Some(newer) = version.newer(path) {
                return Err(newer);
            }
            let entry: Entry = serde_json::from_str(line).map_err(malformed)?;
            history.entries.push(entry);
        }
        let mut cells = BTreeSet::new();
        for (index, entry) in history.entries.iter().enumerate() {
            if !cells.insert((&entry.machine, &entry.run, &entry.started, &entry.cell)) {
                let twice = format!("cell {} of run `{}` is there twice", entry.cell, entry.run);
                return Err(history.malformed(index + 1, twice));
            }
        }
        // Branches that were merged may have brought them in any order.
        history.entries.sort_by(|a, b| a.started.cmp(&b.started));
        Ok(history)
    }

    fn none(path: &Path) -> Self {
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

    /// Whether a run may be appended.
    ///
    /// # Errors
    /// It is there already, or began before the latest of its machine.
    pub fn check(&self, run: &Measured) -> Result<(), GateError> {
        let machine = machine_name(run);
        let mut known = self.entries.iter().filter(|entry| entry.machine == machine);
        let is_it = |entry: &Entry| (&entry.run, &entry.started) == (&run.name, &run.started);
        if known.clone().any(is_it) {
            return Err(GateError::KnownRun {
                run: run.name.clone(),
                path: self.path.clone(),
            });
        }
        match known.next_back() {
            Some(last) if run.started < last.started => Err(GateError::Backwards {
                run: run.name.clone(),
                started: run.started.clone(),
                last: last.run.clone(),
                last_started: last.started.clone(),
                path: self.path.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Appends a run to the history in a file, with how its gate ended. Others that append at the same time wait.
    ///
    /// # Errors
    /// What [`read`](Self::read) and [`check`](Self::check) refuse; a file that cannot be written. Nothing is written then.
    pub fn append(path: &Path, run: &Measured, gate: Gate) -> Result<usize, GateError> {
        let failed = |error| GateError::write(path)(error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let begins = !path.exists();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        file.lock().map_err(failed)?;
        let before = file.metadata().map_err(failed)?.len();
        // Nothing is in one that was begun just now.
        let known = match begins {
            true if before == 0 => Self::none(path),
            _ => Self::read(path)?,
        };
        known.check(run)?;
        let entries = entries(run, gate);
        let mut text = String::new();
        for entry in &entries {
            text.push_str(&serde_json::to_string(entry).map_err(|error| failed(error.into()))?);
            text.push('\n');
        }
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            // A full disk leaves no half of a run, and no history of none.
            let _ = file.set_len(before);
            if before == 0 {
                let _ = fs::remove_file(path);
            }
            return Err(failed(error));
        }
        Ok(entries.len())
    }

    /// Its file, which need not be there yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every line.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How far the metrics of a run's cells move by themselves, where enough runs on its machine tell that passed and had the processes
    /// that a gate asks for at least.
    pub fn fences(&self, run: &Measured) -> Fences {
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

    /// Its series, by machine, cell and metric.
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
        // Runs with other data or weights than the latest are not comparable.
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
    /// How far it moves by itself from run to run, of those that passed with as many processes as a gate asks for.
    pub fn fence(&self, scale: Scale) -> Option<f64> {
        let counts = |entry: &Entry| entry.gate == Gate::Passed && entry.processes >= GATE_REPEATS;
        let passed = self.runs.iter().filter(|(entry, _)| counts(entry));
        let values: Vec<f64> = passed.map(|(_, value)| *value).collect();
        noise_fence(&values, scale)
    }
}

/// A line for every cell of a run that was tried.
fn entries(run: &Measured, gate: Gate) -> Vec<Entry> {
    let machine = machine_name(run);
    let settings = Settings::of(run.cells.values());
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
