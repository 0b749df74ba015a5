//! Loading of a run folder.

use std::{collections::HashMap, path::Path};

use mantissa_core::{CellId, Environment, InputFile, Plan, Record, input_difference};
use mantissa_run_folder::{LatestRecords, RunReader, SampleSelection};

use crate::{Digest, ReportError, Store};

/// One execution of a plan, as recorded in its folder.
#[derive(Debug, Clone)]
pub struct Run {
    /// Name of the folder.
    pub name: String,
    /// `environment.json`.
    pub environment: Environment,
    /// `plan.json`.
    pub plan: Plan,
    /// The latest attempt of every repeat of every cell, in the order of the first attempts in the file.
    pub records: Vec<Record>,
    /// Summaries of the raw samples, by cell and repeat, for the records that have samples.
    pub digests: HashMap<(CellId, u32), Digest>,
    /// The raw samples.
    pub samples: Store,
    /// `true` if a crash or a full disk truncated the last line of `records.jsonl`.
    pub is_truncated: bool,
    /// Samples that records name but that could not be read, each with its path and the reason.
    pub missing_samples: Vec<String>,
}

impl Run {
    /// Returns the digest of a record's samples.
    pub fn digest(&self, record: &Record) -> Option<&Digest> {
        self.digests.get(&(record.cell.id.clone(), record.repeat))
    }
}

/// Reads a run folder. Reads the raw samples of one record at a time and keeps their digests. Lists unreadable samples in
/// [`Run::missing_samples`]; only values that need them are missing.
pub fn load(folder: &Path) -> Result<Run, ReportError> {
    let reader = RunReader::new(folder);
    let environment = reader.environment()?;
    let plan = reader.plan()?;
    let LatestRecords {
        records,
        is_truncated,
    } = reader.latest_records()?;
    check_inputs(folder, &records)?;
    let name = reader.name();
    let samples = Store::Folder(reader);
    let mut digests = HashMap::new();
    let mut missing_samples = Vec::new();
    for record in &records {
        match samples.read(record, SampleSelection::series(&Digest::FULL_SERIES)) {
            Ok(None) => {}
            Ok(Some(samples)) => {
                digests.insert((record.cell.id.clone(), record.repeat), Digest::new(&samples));
            }
            Err(error) => missing_samples.push(error.to_string()),
        }
    }
    Ok(Run {
        name,
        environment,
        plan,
        records,
        digests,
        samples,
        is_truncated,
        missing_samples,
    })
}

/// Rejects records of one workload that read different input files, because their results cannot be compared.
fn check_inputs(folder: &Path, records: &[Record]) -> Result<(), ReportError> {
    let mut known: HashMap<(&str, &str), &[InputFile]> = HashMap::new();
    for record in records {
        let Some(inputs) = &record.inputs else { continue };
        let workload = (record.cell.suite.as_str(), record.cell.workload.name.as_str());
        let first = known.entry(workload).or_insert(inputs);
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
