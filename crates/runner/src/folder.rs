//! Run folder. Records are appended and synced, and recorded data is never overwritten.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use mantissa_core::{
    Backend, CellId, Environment, LONGEST_RECORD, Plan, Record, RecordReader, Samples, check_file_name,
    create_folder_below, open_regular,
};
use mantissa_inputs::Inputs;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Policy, RunError, cooldown::GpuBaseline, error::At, ledger::Ledger};

const ENVIRONMENT: &str = "environment.json";
const PLAN: &str = "plan.json";
const SETTINGS: &str = "run.json";
const DEVICES: &str = "devices.json";
const RECORDS: &str = "records.jsonl";
const SUITES: &str = "suites";
const SAMPLES: &str = "samples.json.gz";

/// Folder of the cache for tokenized data and compiled kernels, relative to the current directory. Entries are named by
/// content hash.
pub const CACHE: &str = ".mantissa/cache";

/// Maximum number of repeats of a cell.
pub const MAX_REPEATS: u32 = 10_000;

/// Maximum time for which a forked process that has not yet called `exec` can hold a lock.
const FORKED: Duration = Duration::from_millis(500);

/// Extension of a file that is not yet complete and synced.
const UNFINISHED: &str = "part";

/// Content of `run.json`: everything besides the plan that is needed to resume a run and to print the command that
/// reproduces a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// Backend, after `--backend auto` is resolved.
    pub backend: Backend,
    /// Paths of data, weights and vocabulary as given by the user.
    pub inputs: Inputs,
    /// Base folder of relative paths. Absent in runs of earlier versions, whose paths are relative to the current
    /// directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Number of processes per cell.
    pub repeats: u32,
    /// Suite files by suite name, as given by the user.
    pub suites: BTreeMap<String, PathBuf>,
    /// Command of the peer, a program that computes with another framework; empty: burn computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer: Vec<String>,
    /// Order, cooldown, retries and handling of a busy GPU.
    #[serde(default)]
    pub policy: Policy,
}

impl RunSettings {
    /// Checks that `run.json` can store every path.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub(crate) fn check_paths(&self) -> Result<(), RunError> {
        let given = self.inputs.data.values().chain(self.inputs.weights.values());
        let given = given.chain(&self.inputs.vocabulary).chain(self.suites.values());
        match given.into_iter().find(|path| path.to_str().is_none()) {
            None => Ok(()),
            Some(path) => Err(RunError::Input(format!(
                "the path `{}` is not UTF-8, so `{SETTINGS}` cannot store it\n  hint: rename the file",
                path.display()
            ))),
        }
    }

    /// Returns [`inputs`](Self::inputs) with relative paths resolved against [`directory`](Self::directory).
    pub fn resolved_inputs(&self) -> Inputs {
        let mut inputs = self.inputs.clone();
        let Some(directory) = &self.directory else {
            return inputs;
        };
        let given = inputs.data.values_mut().chain(inputs.weights.values_mut());
        let given = given.chain(&mut inputs.vocabulary);
        given.for_each(|path| *path = directory.join(&path));
        inputs
    }
}

/// Open run folder, locked against other processes.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Handle of the folder, which stays valid if the folder is renamed.
    handle: File,
    records: File,
    /// Length of the complete lines of the records, in bytes.
    whole_bytes: u64,
    /// True if an incomplete line may follow them.
    torn: bool,
    ledger: Ledger,
    devices: BTreeMap<String, GpuBaseline>,
    /// Plan of the run.
    pub plan: Arc<Plan>,
    /// Settings of the run.
    pub settings: RunSettings,
    /// Environment of the run.
    pub environment: Environment,
}

/// Reads the plan and the settings of a run.
///
/// # Errors
/// A folder without a run, or a malformed file.
pub fn recorded(path: &Path) -> Result<(Plan, RunSettings), RunError> {
    Ok((read_plan(path)?, read_settings(path)?))
}

/// Reads `plan.json`.
fn read_plan(path: &Path) -> Result<Plan, RunError> {
    let plan: Plan = read_json(path, PLAN)?;
    let of_suites = plan.suites.iter().map(|suite| &suite.name);
    let of_cells = plan.cells.iter().map(|planned| &planned.cell.suite);
    check_names(of_suites.chain(of_cells), &path.join(PLAN))?;
    Ok(plan)
}

/// Reads `run.json`.
fn read_settings(path: &Path) -> Result<RunSettings, RunError> {
    let mut settings: RunSettings = read_json(path, SETTINGS)?;
    if !(1..=MAX_REPEATS).contains(&settings.repeats) {
        return Err(RunError::Input(format!(
            "`{}` has {} repeats, expected 1 to {MAX_REPEATS}",
            path.join(SETTINGS).display(),
            settings.repeats
        )));
    }
    check_names(settings.suites.keys(), &path.join(SETTINGS))?;
    // The content of another cache cannot be trusted.
    settings.inputs.cache = CACHE.into();
    Ok(settings)
}

/// Rejects names of suites that cannot be used as file names.
fn check_names<'a>(mut names: impl Iterator<Item = &'a String>, file: &Path) -> Result<(), RunError> {
    names.try_for_each(|name| {
        check_file_name(name).map_err(|problem| RunError::Input(format!("`{}`: {problem}", file.display())))
    })
}

impl RunFolder {
    /// Creates the folder of a new run with copies of its suites, `texts`. The plan is written last: without a plan, a
    /// folder is not a run and can be used again.
    ///
    /// # Errors
    /// [`RunError::Occupied`] if the folder contains a run; I/O errors.
    pub fn create(
        path: &Path,
        plan: Plan,
        settings: RunSettings,
        texts: &BTreeMap<String, String>,
        environment: Environment,
    ) -> Result<Self, RunError> {
        let suites = create_folder_below(path, Path::new(SUITES)).at(&path.join(SUITES))?;
        let records = lock(path)?;
        let file = path.join(RECORDS);
        if path.join(PLAN).exists() || records.metadata().at(&file)?.len() > 0 {
            return Err(RunError::Occupied {
                path: path.to_owned(),
            });
        }
        for (name, text) in texts {
            let file = suites.join(format!("{name}.toml"));
            replace(&file, |file| file.write_all(text.as_bytes()))?;
        }
        write_json(&path.join(ENVIRONMENT), &environment)?;
        write_json(&path.join(SETTINGS), &settings)?;
        sync_directory(path).at(path)?;
        write_json(&path.join(PLAN), &plan)?;
        sync_directory(path).at(path)?;
        Ok(Self {
            path: path.to_owned(),
            handle: File::open(path).at(path)?,
            records,
            whole_bytes: 0,
            torn: false,
            ledger: Ledger::default(),
            devices: BTreeMap::new(),
            plan: Arc::new(plan),
            settings,
            environment,
        })
    }

    /// Opens the folder of an earlier run. The returned flag is true if the last record was cut off by a crash or a
    /// full disk and had to be removed.
    ///
    /// # Errors
    /// [`RunError::NoRun`], [`RunError::Locked`], or an invalid file.
    pub fn open(path: &Path) -> Result<(Self, bool), RunError> {
        let plan = read_plan(path)?;
        let environment = read_json(path, ENVIRONMENT)?;
        let settings = read_settings(path)?;
        let devices = match read_json(path, DEVICES) {
            // A run without a GPU does not have this file.
            Err(RunError::NoRun { .. }) => BTreeMap::new(),
            read => read?,
        };
        let records = lock(path)?;
        let file = path.join(RECORDS);
        let mut reader = RecordReader::new(BufReader::new(open_regular(&file).at(&file)?));
        let mut ledger = Ledger::default();
        for record in reader.by_ref() {
            let unreadable = |source| RunError::Records {
                path: file.clone(),
                source,
            };
            ledger.note(&record.map_err(unreadable)?);
        }
        let mut folder = Self {
            path: path.to_owned(),
            handle: File::open(path).at(path)?,
            records,
            whole_bytes: reader.whole_bytes(),
            torn: reader.cut(),
            ledger,
            devices,
            plan: Arc::new(plan),
            settings,
            environment,
        };
        folder.mend().at(&file)?;
        Ok((folder, reader.cut()))
    }

    /// Increases the number of repeats of each cell.
    ///
    /// # Errors
    /// Fewer repeats than already planned; I/O errors.
    pub(crate) fn grow(&mut self, repeats: u32) -> Result<(), RunError> {
        let planned = self.settings.repeats;
        if repeats < planned {
            let error = format!(
                "`{}` has {planned} repeats, which cannot be reduced to {repeats}",
                self.path.display()
            );
            return Err(RunError::Input(error));
        }
        if repeats > planned {
            self.settings.repeats = repeats;
            write_json(&self.path.join(SETTINGS), &self.settings)?;
            sync_directory(&self.path).at(&self.path)?;
        }
        Ok(())
    }

    /// Returns the path at which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that stays valid if the folder is renamed, where the system supports it.
    pub(crate) fn place(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            let place = format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd());
            if fs::metadata(&place).is_ok() {
                return place.into();
            }
        }
        self.path.clone()
    }

    /// Returns an error with the path of the folder instead of its [`place`](Self::place).
    pub(crate) fn named(&self, error: RunError) -> RunError {
        let place = self.place();
        let named = |path: PathBuf| match path.strip_prefix(&place) {
            Ok(below) => self.path.join(below),
            Err(_) => path,
        };
        match error {
            RunError::Full { path, source } => RunError::Full {
                path: named(path),
                source,
            },
            RunError::Io { path, source } => RunError::Io {
                path: named(path),
                source,
            },
            RunError::Samples(text) => {
                let place = place.display().to_string();
                RunError::Samples(text.replace(&place, &self.path.display().to_string()))
            }
            error => error,
        }
    }

    /// Checks that the folder and its records still have their paths.
    ///
    /// # Errors
    /// [`RunError::Moved`]. The records up to now are in the renamed folder.
    pub(crate) fn check_path(&self) -> Result<(), RunError> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let open = self.handle.metadata().at(&self.path)?;
            let named = fs::metadata(&self.path);
            if !named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
                let now = fs::read_link(self.place()).ok().filter(|now| now.is_dir());
                let outcome = match now {
                    Some(now) => format!(
                        "renamed to `{}`\n  hint: continue with `--resume {}`; the records are complete",
                        now.display(),
                        now.display()
                    ),
                    None => "renamed or removed".to_owned(),
                };
                return Err(RunError::Moved {
                    path: self.path.clone(),
                    outcome,
                });
            }
            let file = self.path.join(RECORDS);
            let open = self.records.metadata().at(&file)?;
            let named = fs::metadata(&file);
            if !named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
                let outcome = "replaced or removed".to_owned();
                return Err(RunError::Moved { path: file, outcome });
            }
        }
        Ok(())
    }

    /// Returns the state of the GPUs before their first cell, by UUID.
    pub(crate) fn devices(&self) -> &BTreeMap<String, GpuBaseline> {
        &self.devices
    }

    /// Stores the state of the GPUs if it has changed.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn keep_devices(&mut self, devices: &BTreeMap<String, GpuBaseline>) -> Result<(), RunError> {
        if self.devices != *devices {
            write_json(&self.place().join(DEVICES), devices)?;
            sync_directory(&self.place()).at(&self.path)?;
            self.devices.clone_from(devices);
        }
        Ok(())
    }

    /// Returns the ledger of the records.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Appends one record and syncs it to disk. A record that cannot be written completely is removed again.
    ///
    /// # Errors
    /// I/O errors.
    pub fn append(&mut self, record: &Record) -> Result<(), RunError> {
        let file = self.path.join(RECORDS);
        let mut line = serde_json::to_vec(record).map_err(|source| RunError::Json {
            path: file.clone(),
            source,
        })?;
        line.push(b'\n');
        if line.len() as u64 > LONGEST_RECORD {
            return Err(RunError::Input(format!(
                "the record of a cell has {} bytes; the maximum is {LONGEST_RECORD}",
                line.len()
            )));
        }
        self.mend().at(&file)?;
        if self.records.metadata().at(&file)?.len() != self.whole_bytes {
            let outcome = "written to by another program".to_owned();
            return Err(RunError::Moved { path: file, outcome });
        }
        self.torn = true;
        if let Err(error) = self
            .records
            .write_all(&line)
            .and_then(|()| self.records.sync_data())
        {
            // If this fails, the incomplete line is removed when the folder is opened again.
            let _ = self.mend();
            return Err(error).at(&file);
        }
        self.torn = false;
        self.whole_bytes += line.len() as u64;
        self.ledger.note(record);
        Ok(())
    }

    /// Removes an incomplete line after the complete ones.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            // Some systems cannot truncate a file that is open in append mode.
            let writable = OpenOptions::new().write(true).open(self.place().join(RECORDS))?;
            writable.set_len(self.whole_bytes)?;
            writable.sync_all()?;
            self.torn = false;
        }
        Ok(())
    }

    /// Returns the path of an attempt's files, relative to the run folder.
    pub fn attempt(cell: &CellId, repeat: u32, attempt: u32) -> String {
        format!("cells/{cell}/{repeat}-{attempt}")
    }

    /// Creates the folder of the first attempt from `least` on that does not exist yet, and returns the number of the
    /// attempt. Existing folders are not reused: they may have files without a record, and a worker of a killed run may
    /// still write to them.
    ///
    /// # Errors
    /// I/O errors.
    pub fn claim(&self, cell: &CellId, repeat: u32, least: u32) -> Result<u32, RunError> {
        let place = self.place();
        let cells = place.join("cells");
        let of_cell = cells.join(cell.as_str());
        let is_new = !of_cell.exists();
        create_folder_below(&place, &Path::new("cells").join(cell.as_str())).at(&of_cell)?;
        if is_new {
            sync_directory(&cells)
                .and_then(|()| sync_directory(&place))
                .at(&cells)?;
        }
        for attempt in least..u32::MAX {
            let folder = place.join(Self::attempt(cell, repeat, attempt));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made.and_then(|()| sync_directory(&of_cell)).at(&folder)?;
                    return Ok(attempt);
                }
            }
        }
        let error = format!("cell `{cell}` has no unused attempt number");
        Err(RunError::Input(error))
    }
}

/// Opens the records of a folder and locks them.
fn lock(path: &Path) -> Result<File, RunError> {
    let file = path.join(RECORDS);
    refuse_link(&file).at(&file)?;
    refuse_second_name(&file).at(&file)?;
    let records = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file)
        .at(&file)?;
    let start = Instant::now();
    loop {
        match records.try_lock() {
            Ok(()) => return Ok(records),
            // A forked child inherits all open files until it calls `exec`.
            Err(fs::TryLockError::WouldBlock) if start.elapsed() < FORKED => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(RunError::Locked {
                    path: path.to_owned(),
                });
            }
            Err(fs::TryLockError::Error(error)) => return Err(error).at(&file),
        }
    }
}

/// Writes the raw samples of a cell to `folder`, atomically, and syncs them to disk.
///
/// # Errors
/// The folder already contains samples, or cannot be written.
pub fn write_samples(folder: &Path, samples: &Samples) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if has_samples(folder) {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    let (part, file) = unfinished(&folder.join(SAMPLES))?;
    let mut encoder = GzEncoder::new(BufWriter::new(file), Compression::default());
    serde_json::to_writer(&mut encoder, samples)?;
    encoder.finish()?.into_inner()?.sync_all()?;
    fs::rename(part, folder.join(SAMPLES))?;
    sync_directory(folder)
}

/// Returns true if the folder of an attempt contains samples.
pub(crate) fn has_samples(folder: &Path) -> bool {
    folder.join(SAMPLES).exists()
}

/// Stores the output of a worker, unless it is empty.
pub(crate) fn write_output(folder: &Path, output: &[u8]) -> Result<(), RunError> {
    if output.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder).at(folder)?;
    replace(&folder.join("stderr.txt"), |file| file.write_all(output))
}

/// Rejects anything but a regular file or a missing file. A symbolic link could lead out of the folder.
pub(crate) fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file, and links are not followed",
        )),
        _ => Ok(()),
    }
}

/// Rejects a file with several hard links, because a write would change a file elsewhere.
fn refuse_second_name(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if fs::metadata(path).is_ok_and(|there| std::os::unix::fs::MetadataExt::nlink(&there) > 1) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it has several hard links, so writing would change another file\n  hint: copy the folder",
        ));
    }
    Ok(())
}

/// Creates an empty file next to `path`, which is renamed to `path` once it is complete. Replaces the file of an
/// earlier process.
fn unfinished(path: &Path) -> io::Result<(PathBuf, File)> {
    let part = path.with_added_extension(UNFINISHED);
    if let Err(error) = fs::remove_file(&part)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let file = OpenOptions::new().write(true).create_new(true).open(&part)?;
    Ok((part, file))
}

/// Writes a file atomically, even if the power fails.
fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), RunError> {
    let put = || {
        let (part, file) = unfinished(path)?;
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner()?.sync_all()?;
        fs::rename(part, path)
    };
    put().at(path)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    replace(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

fn read_json<T: DeserializeOwned>(folder: &Path, name: &'static str) -> Result<T, RunError> {
    let path = folder.join(name);
    let file = match open_regular(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RunError::NoRun {
                path: folder.to_owned(),
                missing: name,
            });
        }
        other => other.at(&path)?,
    };
    serde_json::from_reader(BufReader::new(file)).map_err(|source| RunError::Json { path, source })
}

/// Syncs the entries of a folder to disk. Only Unix can open folders as files.
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

    use mantissa_core::{Series, SeriesName, Status};

    use super::*;
    use crate::testing;

    fn create(path: &Path) -> Result<RunFolder, RunError> {
        RunFolder::create(
            path,
            testing::plan(2),
            testing::settings(),
            &BTreeMap::new(),
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
        assert!(error.contains("`plan.json` not found"), "{error}");
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

    /// Creates a folder with three records. Returns the content of `records.jsonl`.
    fn three_records(path: &Path) -> Vec<u8> {
        let mut folder = create(path).unwrap();
        for (status, attempt) in [(Status::Failed, 0), (Status::Timeout, 1), (Status::Ok, 2)] {
            let mut record = testing::record(status, attempt);
            record.reason = Some("über".into()); // a cut can split a two-byte character
            folder.append(&record).unwrap();
        }
        fs::read(path.join(RECORDS)).unwrap()
    }

    #[test]
    fn records_that_are_cut_at_any_byte_keep_exactly_their_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let text = three_records(dir.path());
        let file = dir.path().join(RECORDS);
        for length in 0..=text.len() {
            fs::write(&file, &text[..length]).unwrap();
            let whole = text[..length]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            let lines = text[..whole].iter().filter(|byte| **byte == b'\n').count();
            let (folder, cut) = RunFolder::open(dir.path()).unwrap();
            assert_eq!(cut, length > whole, "cut at byte {length}");
            assert_eq!(folder.ledger().records(), lines, "cut at byte {length}");
            assert_eq!(fs::read(&file).unwrap(), text[..whole], "cut at byte {length}");
        }
    }

    #[test]
    fn what_is_appended_after_a_cut_begins_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let text = three_records(dir.path());
        fs::write(dir.path().join(RECORDS), &text[..text.len() - 2]).unwrap();
        let (mut folder, cut) = RunFolder::open(dir.path()).unwrap();
        assert!(cut);
        folder.append(&testing::record(Status::Oom, 3)).unwrap();
        drop(folder);
        let (folder, cut) = RunFolder::open(dir.path()).unwrap();
        assert!(!cut);
        assert_eq!(folder.ledger().records(), 3);
        let statuses: Vec<Status> = testing::records(dir.path())
            .iter()
            .map(|record| record.status)
            .collect();
        assert_eq!(statuses, [Status::Failed, Status::Timeout, Status::Oom]);
    }

    #[test]
    fn a_record_that_could_not_be_appended_leaves_no_part_of_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = create(dir.path()).unwrap();
        folder.append(&testing::record(Status::Ok, 0)).unwrap();
        let file = dir.path().join(RECORDS);
        let whole = fs::read(&file).unwrap();
        // State after the disk is full: part of the line was written and further writes fail.
        OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"{\"schema\":1,")
            .unwrap();
        folder.torn = true;
        let writable = std::mem::replace(&mut folder.records, File::open(&file).unwrap());
        assert!(folder.append(&testing::record(Status::Ok, 1)).is_err());
        assert_eq!(fs::read(&file).unwrap(), whole);
        folder.records = writable;
        folder.append(&testing::record(Status::Ok, 2)).unwrap();
        assert_eq!(testing::records(dir.path()).len(), 2);
        assert_eq!(folder.ledger().records(), 2);
    }

    #[test]
    fn a_folder_that_was_left_before_its_plan_is_no_run_and_can_be_used_again() {
        let dir = tempfile::tempdir().unwrap();
        drop(create(dir.path()).unwrap());
        for lost in [PLAN, SETTINGS, ENVIRONMENT, RECORDS] {
            // The plan is written last. Without it, any of the other files may be missing.
            fs::remove_file(dir.path().join(PLAN)).unwrap();
            let _ = fs::remove_file(dir.path().join(lost));
            fs::write(dir.path().join("plan.json.part"), "{\"profile\":").unwrap();
            assert!(matches!(RunFolder::open(dir.path()), Err(RunError::NoRun { .. })));
            drop(create(dir.path()).unwrap());
            let (folder, cut) = RunFolder::open(dir.path()).unwrap();
            assert_eq!((folder.plan.cells.len(), cut), (2, false));
        }
    }

    #[test]
    fn an_attempt_has_a_folder_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let folder = create(dir.path()).unwrap();
        let cell = testing::cell(64).id;
        let claims = [(0, 0), (0, 0), (1, 0), (0, 1), (0, 7)];
        let claimed = claims.map(|(repeat, least)| folder.claim(&cell, repeat, least).unwrap());
        assert_eq!(claimed, [0, 1, 0, 2, 7]);
    }

    #[test]
    fn settings_of_a_run_that_knew_no_policy_have_the_defaults() {
        let mut settings = serde_json::to_value(testing::settings()).unwrap();
        settings.as_object_mut().unwrap().remove("policy");
        let read: RunSettings = serde_json::from_value(settings).unwrap();
        assert_eq!(read.policy, Policy::default());
    }

    #[test]
    fn samples_that_were_not_finished_are_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("samples.json.gz.part"), b"\x1f\x8b").unwrap();
        assert!(!has_samples(dir.path()));
    }

    #[test]
    fn samples_are_compressed_json_and_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let samples = Samples {
            series: vec![Series::new(SeriesName::TrainLoss)],
            test_correct: None,
            ranges: vec![],
            trials: vec![],
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
