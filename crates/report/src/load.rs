//! A run folder in memory.

use std::{
    collections::HashMap,
    fs,
    io::Read,
    path::{Component, Path, PathBuf},
};

use flate2::read::GzDecoder;
use mantissa_core::{CellId, Environment, Plan, Record, SCHEMA_VERSION, Samples, parse_records};

use crate::ReportError;

/// One execution of a plan, as its folder tells it.
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
    /// Raw samples by cell and repeat, for the records that have them.
    pub samples: HashMap<(CellId, u32), Samples>,
    /// Whether the last line of `records.jsonl` was cut by a crash or a full disk.
    pub cut: bool,
    /// Samples that records name and that could not be read, each with the reason.
    pub missing_samples: Vec<String>,
}

/// Reads a run folder. Samples that are missing cost their figure and are named, nothing else.
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
    let path = folder.join("records.jsonl");
    let parsed = parse_records(&read_text(&path)?).map_err(|source| ReportError::Records { path, source })?;
    let records = latest_attempts(parsed.records);

    let mut samples = HashMap::new();
    let mut missing_samples = Vec::new();
    for record in &records {
        let Some(relative) = &record.samples else { continue };
        match read_samples(folder, relative) {
            Ok(read) => drop(samples.insert((record.cell.id.clone(), record.repeat), read)),
            Err(reason) => missing_samples.push(format!("`{relative}`: {reason}")),
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
        samples,
        cut: parsed.cut,
        missing_samples,
    })
}

fn read_text(path: &Path) -> Result<String, ReportError> {
    fs::read_to_string(path).map_err(|source| ReportError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ReportError> {
    serde_json::from_str(&read_text(path)?).map_err(|source| ReportError::Malformed {
        path: path.to_owned(),
        source,
    })
}

/// Keeps, for every repeat of every cell, the attempt with the highest number.
fn latest_attempts(records: Vec<Record>) -> Vec<Record> {
    let mut place: HashMap<(CellId, u32), usize> = HashMap::new();
    let mut latest: Vec<Record> = Vec::with_capacity(records.len());
    for record in records {
        match place.get(&(record.cell.id.clone(), record.repeat)) {
            Some(&index) if latest[index].attempt <= record.attempt => latest[index] = record,
            Some(_) => {}
            None => {
                place.insert((record.cell.id.clone(), record.repeat), latest.len());
                latest.push(record);
            }
        }
    }
    latest
}

/// Reads the samples in a folder of the run; a path that would leave the run folder is refused.
fn read_samples(run: &Path, relative: &str) -> Result<Samples, String> {
    let relative = PathBuf::from(relative);
    if !relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Err("the path leaves the run folder".to_owned());
    }
    let path = run.join(relative).join("samples.json.gz");
    let packed = fs::read(path).map_err(|error| error.to_string())?;
    let mut json = String::new();
    GzDecoder::new(packed.as_slice())
        .read_to_string(&mut json)
        .map_err(|error| error.to_string())?;
    serde_json::from_str(&json).map_err(|error| error.to_string())
}
