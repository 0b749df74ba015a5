//! The run folder: written once, appended to, synced, never overwritten.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use mantissa_core::{Backend, CellId, Environment, ParsedRecords, Plan, Record, Samples, parse_records};
use mantissa_workloads::Inputs;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{RunError, error::At};

const ENVIRONMENT: &str = "environment.json";
const PLAN: &str = "plan.json";
const SETTINGS: &str = "run.json";
const RECORDS: &str = "records.jsonl";
const SUITES: &str = "suites";
const SAMPLES: &str = "samples.json.gz";

/// `run.json`: what a run needs beside its plan to go on, and to print the command that reproduces a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// The backend that `--backend` came to.
    pub backend: Backend,
    /// Where data lies, as it was given.
    pub inputs: Inputs,
    /// Fresh processes for each cell.
    pub repeats: u32,
    /// Suite files by suite name, as they were given.
    pub suites: BTreeMap<String, PathBuf>,
}

/// An open run folder that no other process writes to.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    records: File,
    /// The plan of the run.
    pub plan: Plan,
    /// See [`RunSettings`].
    pub settings: RunSettings,
    /// What holds for the whole run.
    pub environment: Environment,
}

impl RunFolder {
    /// Makes the folder of a new run, with copies of its suite files.
    ///
    /// # Errors
    /// [`RunError::Occupied`] if there is a run already; whatever the file system says.
    pub fn create(
        path: &Path,
        plan: Plan,
        settings: RunSettings,
        environment: Environment,
    ) -> Result<Self, RunError> {
        let occupied = [ENVIRONMENT, PLAN, SETTINGS, RECORDS]
            .iter()
            .any(|name| path.join(name).exists());
        if occupied {
            return Err(RunError::Occupied {
                path: path.to_owned(),
            });
        }
        let suites = path.join(SUITES);
        fs::create_dir_all(&suites).at(&suites)?;
        for (name, from) in &settings.suites {
            let text = fs::read(from).at(from)?;
            write_new(&suites.join(format!("{name}.toml")), &text)?;
        }
        write_json(&path.join(ENVIRONMENT), &environment)?;
        write_json(&path.join(SETTINGS), &settings)?;
        write_json(&path.join(PLAN), &plan)?;
        let file = path.join(RECORDS);
        let records = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&file)
            .at(&file)?;
        sync_directory(path).at(path)?;
        let folder = Self {
            path: path.to_owned(),
            records,
            plan,
            settings,
            environment,
        };
        folder.lock()?;
        Ok(folder)
    }

    /// Opens the folder of an earlier run. A last record line that was cut by a crash or a full disk is removed, and
    /// the records say so.
    ///
    /// # Errors
    /// [`RunError::NoRun`], [`RunError::Locked`], or a file that is not what a run writes.
    pub fn open(path: &Path) -> Result<(Self, ParsedRecords), RunError> {
        let environment = read_json(path, ENVIRONMENT)?;
        let settings = read_json(path, SETTINGS)?;
        let plan = read_json(path, PLAN)?;
        let file = path.join(RECORDS);
        let records = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .at(&file)?;
        let folder = Self {
            path: path.to_owned(),
            records,
            plan,
            settings,
            environment,
        };
        folder.lock()?;
        let text = fs::read(&file).at(&file)?;
        // A cut inside a character leaves bytes that are no text; they lie behind the last line end.
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        let lines = std::str::from_utf8(&text[..whole]).map_err(|error| RunError::Io {
            path: file.clone(),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        let mut parsed = parse_records(lines).map_err(|source| RunError::Records {
            path: file.clone(),
            source,
        })?;
        parsed.cut = whole < text.len();
        if parsed.cut {
            let writable = OpenOptions::new().write(true).open(&file).at(&file)?;
            writable
                .set_len(whole as u64)
                .and_then(|()| writable.sync_all())
                .at(&file)?;
        }
        Ok((folder, parsed))
    }

    fn lock(&self) -> Result<(), RunError> {
        match self.records.try_lock() {
            Ok(()) => Ok(()),
            Err(fs::TryLockError::WouldBlock) => Err(RunError::Locked {
                path: self.path.clone(),
            }),
            Err(fs::TryLockError::Error(error)) => Err(error).at(&self.path),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record and waits until it is on the disk.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn append(&mut self, record: &Record) -> Result<(), RunError> {
        let file = self.path.join(RECORDS);
        let mut line = serde_json::to_vec(record).map_err(|source| RunError::Json {
            path: file.clone(),
            source,
        })?;
        line.push(b'\n');
        self.records
            .write_all(&line)
            .and_then(|()| self.records.sync_data())
            .at(&file)
    }

    /// Folder of an attempt's files, relative to the run folder.
    pub fn attempt(cell: &CellId, repeat: u32, attempt: u32) -> String {
        format!("cells/{cell}/{repeat}-{attempt}")
    }

    /// The first attempt from `least` on that left nothing behind, not even files without a record.
    pub fn free_attempt(&self, cell: &CellId, repeat: u32, least: u32) -> u32 {
        let taken = |attempt: &u32| self.path.join(Self::attempt(cell, repeat, *attempt)).exists();
        (least..)
            .find(|attempt| !taken(attempt))
            .expect("attempts are not used up")
    }
}

/// Writes the raw samples of a cell into `folder` and waits until they are on the disk.
pub(crate) fn write_samples(folder: &Path, samples: &Samples) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(folder.join(SAMPLES))?;
    let mut encoder = GzEncoder::new(io::BufWriter::new(file), Compression::default());
    serde_json::to_writer(&mut encoder, samples)?;
    encoder.finish()?.into_inner()?.sync_all()?;
    sync_directory(folder)
}

/// Whether an attempt left samples.
pub(crate) fn has_samples(folder: &Path) -> bool {
    folder.join(SAMPLES).exists()
}

/// Keeps what a worker printed, if it printed anything.
pub(crate) fn write_output(folder: &Path, output: &[u8]) -> Result<(), RunError> {
    if output.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder).at(folder)?;
    write_new(&folder.join("stderr.txt"), output)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .at(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at(path)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|source| RunError::Json {
        path: path.to_owned(),
        source,
    })?;
    text.push(b'\n');
    write_new(path, &text)
}

fn read_json<T: DeserializeOwned>(folder: &Path, name: &'static str) -> Result<T, RunError> {
    let path = folder.join(name);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RunError::NoRun {
                path: folder.to_owned(),
                missing: name,
            });
        }
        other => other.at(&path)?,
    };
    serde_json::from_slice(&text).map_err(|source| RunError::Json { path, source })
}

/// Makes the names in a folder durable. Other systems than Unix do not open folders as files.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use mantissa_core::{Series, Status};

    use super::*;
    use crate::testing;

    fn create(path: &Path) -> Result<RunFolder, RunError> {
        RunFolder::create(
            path,
            testing::plan(2),
            testing::settings(),
            testing::environment(),
        )
    }

    #[test]
    fn a_folder_that_holds_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(create(dir.path()).unwrap());
        assert!(matches!(create(dir.path()), Err(RunError::Occupied { .. })));
    }

    #[test]
    fn a_folder_without_a_run_cannot_be_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let error = RunFolder::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("`environment.json` is not there"), "{error}");
    }

    #[test]
    fn two_processes_never_write_to_one_folder() {
        let dir = tempfile::tempdir().unwrap();
        let _held = create(dir.path()).unwrap();
        assert!(matches!(
            RunFolder::open(dir.path()),
            Err(RunError::Locked { .. })
        ));
    }

    #[test]
    fn a_cut_last_line_is_removed_and_reported_and_the_whole_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = create(dir.path()).unwrap();
        folder.append(&testing::record(Status::Ok, 0)).unwrap();
        folder.append(&testing::record(Status::Ok, 1)).unwrap();
        drop(folder);
        let file = dir.path().join(RECORDS);
        let mut text = fs::read(&file).unwrap();
        let whole = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        text.truncate(whole + 40);
        text.push(0xC3); // half a character
        fs::write(&file, &text).unwrap();
        let (mut folder, parsed) = RunFolder::open(dir.path()).unwrap();
        assert!(parsed.cut);
        assert_eq!(parsed.records.len(), 1);
        folder.append(&testing::record(Status::Failed, 1)).unwrap();
        drop(folder);
        let (_, parsed) = RunFolder::open(dir.path()).unwrap();
        assert!(!parsed.cut);
        assert_eq!(
            parsed.records.iter().map(|r| r.status).collect::<Vec<_>>(),
            [Status::Ok, Status::Failed]
        );
    }

    #[test]
    fn samples_are_compressed_json_and_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let samples = Samples {
            series: vec![Series::new("a", "s", "step")],
            test_correct: None,
        };
        write_samples(dir.path(), &samples).unwrap();
        let file = File::open(dir.path().join(SAMPLES)).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(serde_json::from_str::<Samples>(&text).unwrap(), samples);
        assert!(write_samples(dir.path(), &samples).is_err());
    }
}
