//! Measurements of a run or a baseline that a comparison needs: values by cell, metric and process.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    io::{BufReader, ErrorKind, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use mantissa_analysis::median;
use mantissa_core::{
    Backend, Cell, CellId, DataSource, Environment, Executed, Fingerprint, InputFile, LONGEST_RECORD,
    MetricName, Plan, Profile, Record, SCHEMA_VERSION, Status, input_difference, open_regular, read_line,
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{BaselineInfo, GateError, Mismatch, Part};

/// Measurements of a run or a baseline.
#[derive(Debug, Clone)]
pub struct RunMeasurements {
    /// Name of the run folder or the baseline.
    pub name: String,
    /// Path of the folder.
    pub folder: PathBuf,
    /// Profile of the run.
    pub profile: Profile,
    /// Fingerprint of the machine and the build, equal for all records.
    pub fingerprint: Fingerprint,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// All cells that were tried or skipped, by identity.
    pub cells: BTreeMap<CellId, MeasuredCell>,
}

/// Measurements of a cell.
#[derive(Debug, Clone)]
pub struct MeasuredCell {
    /// The cell.
    pub cell: Cell,
    /// Command that measures the cell again.
    pub command: String,
    /// Input files that the cell read; absent in records of versions before 0.2.
    pub inputs: Option<Vec<InputFile>>,
    /// Source of the data.
    pub data: Option<DataSource>,
    /// Processes of the cell, ordered by their number.
    pub processes: Vec<Process>,
}

/// Measurements of a process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Number of the process within its cell, from 0.
    pub repeat: u32,
    /// Number of the attempt.
    attempt: u32,
    /// Start time of the run that the process belongs to (RFC 3339, UTC).
    pub begun: Arc<str>,
    /// Exit status.
    pub status: Status,
    /// Reason of the status, unless it is `ok`.
    pub reason: Option<String>,
    /// Arithmetic observed in hardware.
    pub executed: Executed,
    /// Value of each metric. A metric that is not available is missing.
    pub values: BTreeMap<MetricName, Reading>,
}

/// Value of a metric in a record.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Reading {
    /// The estimate, in the metric's unit.
    pub value: f64,
    /// Number of samples behind the estimate.
    pub n: Option<u64>,
}

impl MeasuredCell {
    /// Returns an identifier of the cell's inputs: the hashes of the input files and of the data, which may be synthetic. Returns `None` if
    /// the cell has neither.
    pub fn input_id(&self) -> Option<String> {
        let files = self.inputs.iter().flatten().map(|file| file.hash.as_str());
        let made = self.data.iter().map(|data| data.hash.as_str());
        let all: Vec<&str> = files.chain(made).collect();
        (!all.is_empty()).then(|| all.join("+"))
    }

    /// Returns true if any process of the cell was started.
    pub fn was_tried(&self) -> bool {
        self.processes
            .iter()
            .any(|process| process.status != Status::Skipped)
    }

    /// Returns the reason if the cell was skipped.
    pub fn skip_reason(&self) -> Option<&str> {
        let process = self.processes.first().filter(|_| !self.was_tried())?;
        process.reason.as_deref()
    }

    /// Returns the processes with status `ok`.
    pub fn completed(&self) -> impl Iterator<Item = &Process> {
        self.processes
            .iter()
            .filter(|process| process.status == Status::Ok)
    }

    /// Returns the values of a metric, one per completed process.
    pub fn values(&self, metric: MetricName) -> Vec<f64> {
        self.completed()
            .filter_map(|process| Some(process.values.get(&metric)?.value))
            .collect()
    }

    /// Returns one value per run (the median over its processes) if at least `least` runs have the metric; otherwise one value per process.
    /// Processes of one run are not independent because they share the state of the machine.
    pub fn independent_values(&self, metric: MetricName, least: usize) -> Vec<f64> {
        let mut runs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for process in self.completed() {
            if let Some(reading) = process.values.get(&metric) {
                runs.entry(&process.begun).or_default().push(reading.value);
            }
        }
        match runs.len() >= least {
            true => runs
                .into_values()
                .filter_map(|run| Some(median(run)?.value))
                .collect(),
            false => self.values(metric),
        }
    }

    /// Returns the median over the completed processes for every metric that all of them have.
    pub fn medians(&self) -> BTreeMap<MetricName, f64> {
        let completed = self.completed().count();
        let metrics: BTreeSet<MetricName> = self
            .completed()
            .flat_map(|process| process.values.keys().copied())
            .collect();
        let of_all = |metric| {
            let values = self.values(metric);
            let all = values.len() == completed;
            Some((metric, median(values)?.value)).filter(|_| all)
        };
        metrics.into_iter().filter_map(of_all).collect()
    }
}

/// Fields that are read from a record whose cell is already known.
#[derive(Deserialize)]
struct Line {
    schema: u64,
    cell: Id,
    repeat: u32,
    attempt: u32,
    status: Status,
    reason: Option<String>,
    executed: Executed,
    metrics: BTreeMap<MetricName, Value>,
    fingerprint: Fingerprint,
    inputs: Option<Vec<InputFile>>,
}

#[derive(Deserialize)]
struct Id {
    id: CellId,
}

#[derive(Deserialize)]
struct Value {
    value: Option<f64>,
    n: Option<u64>,
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
        let records = folder.join("records.jsonl");
        let described = folder.join(BaselineInfo::FILE);
        let name = folder
            .canonicalize()
            .unwrap_or_else(|_| folder.to_owned())
            .file_name()
            .map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
        let saved = described.is_file();
        let (name, profile, started, promised) = if saved {
            let saved: BaselineInfo = read_versioned(&described)?;
            (saved.name, saved.profile, saved.started, Some(saved.records))
        } else {
            let environment: Environment = read_versioned(&folder.join("environment.json"))?;
            let plan: Plan = read_json(&folder.join("plan.json"))?;
            (name, plan.profile, environment.started, None)
        };
        let (cells, fingerprint) = Reader::new(&records, saved, &started).read()?;
        let measured = Self {
            name,
            folder: folder.to_owned(),
            profile,
            fingerprint,
            started,
            cells,
        };
        match promised.filter(|promised| *promised != measured.records()) {
            Some(promised) => Err(GateError::Malformed {
                path: records,
                line: measured.records(),
                reason: format!(
                    "the file ends here, but `{}` declares {promised} records",
                    BaselineInfo::FILE
                ),
            }),
            None => Ok(measured),
        }
    }

    /// Returns the backends of the cells.
    pub fn backends(&self) -> BTreeSet<Backend> {
        let cells = self.cells.values();
        cells.map(|measured| measured.cell.setting.backend()).collect()
    }

    /// Returns the number of processes of all cells.
    pub fn records(&self) -> usize {
        self.cells.values().map(|measured| measured.processes.len()).sum()
    }

    /// Reads interleaved runs and joins them. The processes of the second folder follow those of the first.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read). Fails if the folders come from different machines, builds, revisions or profiles, if a
    /// folder is listed twice, or if there is no folder.
    pub fn read_all(folders: &[PathBuf]) -> Result<Self, GateError> {
        let [first, others @ ..] = folders else {
            return Err(GateError::NoRun);
        };
        let mut seen = BTreeSet::new();
        if let Some(twice) = folders.iter().find(|folder| {
            let path = folder.canonicalize().unwrap_or_else(|_| (*folder).clone());
            !seen.insert(path)
        }) {
            return Err(GateError::Twice { path: twice.clone() });
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

    /// Checks that the processes can be joined to those of another run: both must come from the same program on the same machine.
    ///
    /// # Errors
    /// Returns an error with the differences.
    pub fn check_joins(&self, known: &Self) -> Result<(), GateError> {
        // The runs can have different cells and therefore different backends.
        let mismatches = Mismatch::between(known, self);
        let other_data = mismatches.iter().any(|mismatch| mismatch.part == Part::Data);
        if alike(&known.fingerprint, &self.fingerprint) && known.profile == self.profile && !other_data {
            return Ok(());
        }
        Err(match same_program(&known.fingerprint, &self.fingerprint) {
            true => GateError::Mismatch { mismatches },
            false => GateError::Programs {
                runs: [known.name.clone(), self.name.clone()],
                programs: [known, self].map(|measured| program_of(&measured.fingerprint)),
            },
        })
    }

    /// Removes the processes of these cells, so that they can be measured again.
    pub fn forget(&mut self, cells: &BTreeSet<CellId>) {
        for (id, measured) in &mut self.cells {
            if cells.contains(id) {
                measured.processes.clear();
            }
        }
    }

    /// Appends the processes of another run. Cells that `self` lacks are ignored.
    pub fn extend(&mut self, more: Self) {
        for (id, fresh) in more.cells {
            let Some(known) = self.cells.get_mut(&id) else {
                continue;
            };
            let first = known
                .processes
                .iter()
                .map(|process| process.repeat + 1)
                .max()
                .unwrap_or_default();
            known
                .processes
                .extend(fresh.processes.into_iter().map(|process| Process {
                    repeat: first + process.repeat,
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

/// Reads a JSON file with a schema version. The version is checked first because a later version may have another structure.
pub(crate) fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<T, GateError> {
    let version: Version = read_json(path)?;
    match version.newer(path) {
        Some(newer) => Err(newer),
        None => read_json(path),
    }
}

/// Schema version of a file or a line.
#[derive(Deserialize)]
pub(crate) struct Version {
    schema: u64,
}

impl Version {
    /// Returns an error if the version is later than the one of this build.
    pub fn newer(&self, path: &Path) -> Option<GateError> {
        (self.schema > u64::from(SCHEMA_VERSION)).then(|| GateError::NewerSchema {
            path: path.to_owned(),
            found: u32::try_from(self.schema).unwrap_or(u32::MAX),
        })
    }
}

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, GateError> {
    let mut text = String::new();
    open_regular(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(GateError::read(path))?;
    serde_json::from_str(&text).map_err(|source| GateError::Malformed {
        path: path.to_owned(),
        line: source.line(),
        reason: source.to_string(),
    })
}

/// Reader of `records.jsonl`. Reads the first record of a cell completely, and only the compared fields of the others.
struct Reader<'a> {
    path: &'a Path,
    /// True for a baseline, which contains every process once.
    once: bool,
    begun: Arc<str>,
    places: HashMap<CellId, MeasuredCell>,
    fingerprint: Option<Fingerprint>,
}

type Read = (BTreeMap<CellId, MeasuredCell>, Fingerprint);

impl<'a> Reader<'a> {
    fn new(path: &'a Path, once: bool, begun: &str) -> Self {
        Self {
            path,
            once,
            begun: begun.into(),
            places: HashMap::new(),
            fingerprint: None,
        }
    }

    fn read(mut self) -> Result<Read, GateError> {
        let file = open_regular(self.path).map_err(GateError::read(self.path))?;
        let mut source = BufReader::with_capacity(1 << 18, file);
        let mut line = Vec::new();
        for number in 1.. {
            match read_line(&mut source, &mut line, LONGEST_RECORD) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(self.malformed(number, error.to_string()));
                }
                Err(error) => return Err(GateError::read(self.path)(error)),
            }
            if line.last() != Some(&b'\n') {
                return Err(match self.once {
                    true => self.malformed(number, "the last line is truncated".to_owned()),
                    false => GateError::Cut {
                        path: self.path.to_owned(),
                    },
                });
            }
            if !line.trim_ascii().is_empty() {
                self.take(&line, number)?;
            }
        }
        let Some(fingerprint) = self.fingerprint else {
            return Err(GateError::Empty {
                path: self.path.to_owned(),
            });
        };
        let mut cells: BTreeMap<CellId, MeasuredCell> = self.places.into_iter().collect();
        for measured in cells.values_mut() {
            measured.processes.sort_by_key(|process| process.repeat);
        }
        Ok((cells, fingerprint))
    }

    fn malformed(&self, line: usize, reason: String) -> GateError {
        GateError::Malformed {
            path: self.path.to_owned(),
            line,
            reason,
        }
    }

    fn take(&mut self, text: &[u8], number: usize) -> Result<(), GateError> {
        let malformed = |error: serde_json::Error| self.malformed(number, error.to_string());
        let line: Line = match serde_json::from_slice(text) {
            Ok(line) => line,
            // A later version may have another structure.
            Err(error) => match serde_json::from_slice::<Version>(text) {
                Ok(version) => return Err(version.newer(self.path).unwrap_or_else(|| malformed(error))),
                Err(_) => return Err(malformed(error)),
            },
        };
        let version = Version { schema: line.schema };
        if let Some(error) = version.newer(self.path) {
            return Err(error);
        }
        match &self.fingerprint {
            Some(first) if !alike(first, &line.fingerprint) => {
                return Err(GateError::ManyMachines {
                    path: self.path.to_owned(),
                    line: number,
                });
            }
            // Cells on a CPU do not record a GPU, and a run can contain both kinds.
            Some(first) if first.gpu.is_some() || line.fingerprint.gpu.is_none() => {}
            _ => self.fingerprint = Some(line.fingerprint.clone()),
        }
        let id = line.cell.id.clone();
        let known = self.places.get(&id).and_then(|known| known.inputs.as_deref());
        if let Some(differs) = input_difference(known, line.inputs.as_deref()) {
            let reason = format!("cell {id} has other input files than in an earlier record: {differs}");
            return Err(self.malformed(number, reason));
        }
        let process = Process::of(line, &self.begun);
        match self.places.entry(id) {
            Entry::Vacant(place) => {
                let whole: Result<Record, _> = serde_json::from_slice(text);
                let record = whole.map_err(|error| GateError::Malformed {
                    path: self.path.to_owned(),
                    line: number,
                    reason: error.to_string(),
                })?;
                place.insert(MeasuredCell {
                    cell: record.cell,
                    command: record.command,
                    inputs: record.inputs,
                    data: record.data,
                    processes: vec![process],
                });
            }
            Entry::Occupied(mut place) => {
                let processes = &mut place.get_mut().processes;
                match processes.iter().position(|known| known.repeat == process.repeat) {
                    Some(index) if self.once || processes[index].attempt == process.attempt => {
                        let twice =
                            format!("process {} of cell {} occurs twice", process.repeat, place.key());
                        return Err(self.malformed(number, twice));
                    }
                    Some(index) if processes[index].attempt < process.attempt => processes[index] = process,
                    Some(_) => {}
                    None => processes.push(process),
                }
            }
        }
        Ok(())
    }
}

/// Returns true if both records can come from the same run, i.e. from the same program on the same machine.
fn alike(one: &Fingerprint, other: &Fingerprint) -> bool {
    let gpus = one.gpu.as_ref().zip(other.gpu.as_ref());
    // The number of cores matters only if the CPU computes.
    one.cpu == other.cpu
        && (gpus.is_some() || one.cores == other.cores)
        && gpus.is_none_or(|(one, other)| one.name == other.name && one.driver == other.driver)
        && one.build == other.build
        && one.peer == other.peer
        && same_program(one, other)
}

/// Compares the hashes of the program files if both are known, else the revisions.
pub fn same_program(one: &Fingerprint, other: &Fingerprint) -> bool {
    match (&one.program, &other.program) {
        (Some(one), Some(other)) => one == other,
        _ => one.revision == other.revision,
    }
}

/// Describes a program: `0123456789ab (release, fedcba9876543210)`.
pub fn program_of(fingerprint: &Fingerprint) -> String {
    let revision = fingerprint.revision.as_deref().unwrap_or("an unknown revision");
    let file = fingerprint.program.as_ref().map(|file| format!(", {file}"));
    format!("{revision} ({}{})", fingerprint.build, file.unwrap_or_default())
}

impl Process {
    fn of(line: Line, begun: &Arc<str>) -> Self {
        let values = line.metrics.into_iter().filter_map(|(name, value)| {
            let reading = Reading {
                value: value.value?,
                n: value.n,
            };
            Some((name, reading))
        });
        Self {
            repeat: line.repeat,
            attempt: line.attempt,
            begun: Arc::clone(begun),
            status: line.status,
            reason: line.reason,
            executed: line.executed,
            values: values.collect(),
        }
    }
}
