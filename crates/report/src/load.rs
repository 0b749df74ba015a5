//! Loading of a run folder.

use std::{collections::HashMap, fs::File, io::BufReader, mem, path::Path};

use mantissa_core::{
    CellId, Environment, InputFile, Plan, Record, RecordReader, SCHEMA_VERSION, input_difference,
    open_regular,
};

use crate::{Digest, ReportError, SampleSelection, Store};

/// One execution of a plan, as recorded in its folder.
#[derive(Debug, Clone)]
pub struct Run {
    /// Name of the folder.
    pub name: String,
    /// `environment.json`.
    pub environment: Environment,
    /// `plan.json`.
    pub plan: Plan,
    /// The latest attempt of every repeat of every cell, in the order of the file.
    pub records: Vec<Record>,
    /// Summaries of the raw samples, by cell and repeat, for the records that have samples.
    pub digests: HashMap<(CellId, u32), Digest>,
    /// The raw samples.
    pub samples: Store,
    /// `true` if a crash or a full disk truncated the last line of `records.jsonl`.
    pub cut: bool,
    /// Paths of samples that records name but that could not be read, each with the reason.
    pub missing_samples: Vec<String>,
}

impl Run {
    /// Returns the digest of a record's samples.
    pub fn digest(&self, record: &Record) -> Option<&Digest> {
        self.digests.get(&(record.cell.id.clone(), record.repeat))
    }
}

/// Reads a run folder, with the raw samples of one record at a time. Unreadable samples are listed in [`Run::missing_samples`] and
/// affect only what is computed from them.
pub fn load(folder: &Path) -> Result<Run, ReportError> {
    let environment: Environment = read_json(&folder.join("environment.json"))?;
    if environment.schema > SCHEMA_VERSION {
        let path = folder.join("environment.json");
        return Err(ReportError::NewerSchema {
            path,
            found: environment.schema,
        });
    }
    let plan: Plan = read_json(&folder.join("plan.json"))?;
    let (records, cut) = read_records(&folder.join("records.jsonl"))?;

    check_inputs(folder, &records)?;
    let store = Store::Folder(folder.to_owned());
    let mut digests = HashMap::new();
    let mut missing_samples = Vec::new();
    for record in &records {
        match store.read(record, SampleSelection::series(&Digest::READS)) {
            Ok(None) => {}
            Ok(Some(samples)) => {
                digests.insert((record.cell.id.clone(), record.repeat), Digest::new(&samples));
            }
            Err(reason) => missing_samples.push(reason),
        }
    }
    let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = absolute
        .file_name()
        .map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
    Ok(Run {
        name,
        environment,
        plan,
        records,
        digests,
        samples: store,
        cut,
        missing_samples,
    })
}

/// Rejects records of one workload that read different input files, because their results cannot be compared.
fn check_inputs(folder: &Path, records: &[Record]) -> Result<(), ReportError> {
    let mut known: HashMap<(&str, &str), &[InputFile]> = HashMap::new();
    for record in records {
        let Some(inputs) = &record.inputs else { continue };
        let of = (record.cell.suite.as_str(), record.cell.workload.name.as_str());
        let first = known.entry(of).or_insert(inputs);
        if let Some(differs) = input_difference(Some(first), Some(inputs)) {
            return Err(ReportError::OtherInputs {
                path: folder.to_owned(),
                workload: record.cell.workload.name.clone(),
                differs: differs.to_string(),
            });
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<BufReader<File>, ReportError> {
    let opened = open_regular(path).map(BufReader::new);
    opened.map_err(|source| ReportError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ReportError> {
    serde_json::from_reader(open(path)?).map_err(|source| ReportError::Malformed {
        path: path.to_owned(),
        source,
    })
}

/// Reads the records line by line and keeps the attempt with the highest number of every repeat of every cell. Also returns `true`
/// if the last line was truncated: such a line lacks its line end and is dropped.
fn read_records(path: &Path) -> Result<(Vec<Record>, bool), ReportError> {
    let mut reader = RecordReader::new(open(path)?);
    let mut place: HashMap<(CellId, u32), usize> = HashMap::new();
    let mut latest: Vec<Record> = Vec::new();
    for record in reader.by_ref() {
        let mut record = record.map_err(|source| ReportError::Records {
            path: path.to_owned(),
            source,
        })?;
        // Collecting again shrinks the map: a map that grew entry by entry is half empty, and metrics are most of a record.
        record.metrics = mem::take(&mut record.metrics).into_iter().collect();
        match place.get(&(record.cell.id.clone(), record.repeat)) {
            Some(&index) if latest[index].attempt <= record.attempt => latest[index] = record,
            Some(_) => {}
            None => {
                place.insert((record.cell.id.clone(), record.repeat), latest.len());
                latest.push(record);
            }
        }
    }
    Ok((latest, reader.cut()))
}
