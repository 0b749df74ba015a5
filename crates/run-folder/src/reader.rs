//! Reader of a run folder.

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, BufReader},
    mem,
    path::{Component, Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use mantissa_core::{Bounded, CellId, Environment, MAX_SAMPLES_BYTES, Plan, Record, Samples, open_regular};
use serde::de::DeserializeOwned;

use crate::{
    ENVIRONMENT_FILE, FolderError, PLAN_FILE, RECORDS_FILE, RecordReader, SAMPLES_FILE, SampleSelection,
    read_json, selected_series,
};

/// Reader of a run folder. Files are not cached: each method reads its file again.
#[derive(Debug, Clone)]
pub struct RunReader {
    folder: PathBuf,
}

/// The latest attempt of every repeat of every cell.
#[derive(Debug)]
pub struct LatestRecords {
    /// Records, in the order in which the first attempt at each repeat occurs in the file.
    pub records: Vec<Record>,
    /// True if the last line of the file was truncated by a crash or a full disk. The line is skipped.
    pub is_truncated: bool,
}

impl RunReader {
    /// Creates a reader of a folder. The folder may be missing; then reading fails.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Returns the name of the run, which is the name of its folder.
    pub fn name(&self) -> String {
        let absolute = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        absolute
            .file_name()
            .map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Reads `environment.json`.
    ///
    /// # Errors
    /// See [`json`](Self::json).
    pub fn environment(&self) -> Result<Environment, FolderError> {
        self.json(ENVIRONMENT_FILE)
    }

    /// Reads `plan.json`.
    ///
    /// # Errors
    /// See [`json`](Self::json).
    pub fn plan(&self) -> Result<Plan, FolderError> {
        self.json(PLAN_FILE)
    }

    /// Reads a JSON file of the folder.
    ///
    /// # Errors
    /// [`FolderError::NoFolder`] or [`FolderError::NotARun`] if the file is missing; the errors of [`read_json`].
    pub fn json<T: DeserializeOwned>(&self, file: &'static str) -> Result<T, FolderError> {
        read_json(&self.folder.join(file)).map_err(|error| self.or_not_a_run(error, file))
    }

    /// Opens `records.jsonl`. It may contain several attempts at a repeat.
    ///
    /// # Errors
    /// [`FolderError::NoFolder`] or [`FolderError::NotARun`] if the file is missing; [`FolderError::Read`].
    pub fn records(&self) -> Result<RecordReader, FolderError> {
        RecordReader::open(&self.folder.join(RECORDS_FILE))
            .map_err(|error| self.or_not_a_run(error, RECORDS_FILE))
    }

    /// Reads `records.jsonl` and returns the attempt with the highest number for every repeat of every cell.
    ///
    /// # Errors
    /// The errors of [`records`](Self::records) and of [`RecordReader`].
    pub fn latest_records(&self) -> Result<LatestRecords, FolderError> {
        let mut reader = self.records()?;
        let mut indices: HashMap<(CellId, u32), usize> = HashMap::new();
        let mut records: Vec<Record> = vec![];
        for record in reader.by_ref() {
            let mut record = record?;
            // Rebuild the map to save memory: a map that grew entry by entry is half empty.
            record.metrics = mem::take(&mut record.metrics).into_iter().collect();
            match indices.entry((record.cell.id.clone(), record.repeat)) {
                Entry::Vacant(index) => {
                    index.insert(records.len());
                    records.push(record);
                }
                Entry::Occupied(index) => {
                    let latest = &mut records[*index.get()];
                    if latest.attempt <= record.attempt {
                        *latest = record;
                    }
                }
            }
        }
        let is_truncated = reader.is_truncated();
        Ok(LatestRecords {
            records,
            is_truncated,
        })
    }

    /// Reads the samples of a record; `None` if the record has no samples. Series that are not selected keep only their
    /// last `x` (step or time).
    ///
    /// # Errors
    /// [`FolderError::Outside`], [`FolderError::Read`] or [`FolderError::Malformed`], with paths relative to the folder.
    pub fn samples(
        &self,
        record: &Record,
        selection: SampleSelection<'_>,
    ) -> Result<Option<Samples>, FolderError> {
        let Some(relative) = &record.samples else {
            return Ok(None);
        };
        if !is_below(Path::new(relative)) {
            return Err(FolderError::Outside {
                path: relative.clone(),
            });
        }
        let file = Path::new(relative).join(SAMPLES_FILE);
        let packed = open_regular(&self.folder.join(&file)).map_err(|source| FolderError::Read {
            location: file.as_path().into(),
            source,
        })?;
        let unpacked = Bounded::new(GzDecoder::new(BufReader::new(packed)), MAX_SAMPLES_BYTES);
        selected_series::read(BufReader::new(unpacked), selection)
            .map(Some)
            .map_err(|error| FolderError::of_json(&file, error))
    }

    /// Replaces the error of a missing file by [`FolderError::NotARun`] or [`FolderError::NoFolder`].
    fn or_not_a_run(&self, error: FolderError, missing: &'static str) -> FolderError {
        match &error {
            FolderError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                let path = self.folder.clone();
                match path.exists() {
                    true => FolderError::NotARun { path, missing },
                    false => FolderError::NoFolder { path },
                }
            }
            _ => error,
        }
    }
}

/// Returns true if a relative path stays below its folder. Does not resolve links.
fn is_below(relative: &Path) -> bool {
    relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
}
