//! Baselines: saved records with which runs are compared, as line-oriented text that a version control system can diff.
//!
//! ```text
//! baselines/<name>/<machine>/baseline.json    metadata: the saved run and its machine
//!                            records.jsonl    the latest attempt of every process, sorted by cell and process
//! ```
//! A name has a separate baseline for each machine, backend and profile, see [`machine_name`].

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use mantissa_core::{Record, SCHEMA_VERSION};
use mantissa_run_folder::{FolderError, LatestRecords, RECORDS_FILE, RunReader, read_json};

use crate::{BaselineInfo, GateError, Mismatch, Part, RunMeasurements, machine_name};

/// Folder of baselines.
#[derive(Debug, Clone)]
pub struct Baselines {
    root: PathBuf,
}

impl Baselines {
    /// Opens the baselines in this folder, which does not have to exist yet.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Saves the records of a run under a name. Replaces the baseline of the same name, machine, backend and profile.
    ///
    /// # Errors
    /// Fails if the name is invalid, the run is damaged or a file cannot be written. The previous baseline is then kept.
    pub fn save(&self, name: &str, run: &RunMeasurements) -> Result<BaselineInfo, GateError> {
        check_name(name)?;
        let machine = machine_name(run);
        let saved = BaselineInfo {
            schema: SCHEMA_VERSION,
            name: name.to_owned(),
            machine: machine.clone(),
            profile: run.profile,
            run: run.name.clone(),
            started: run.started.clone(),
            revision: run.fingerprint.revision.clone(),
            cells: run.cells.len(),
            repeats: run.repeats(),
            records: run.records(),
        };
        let records = latest_records(&run.folder)?;
        let folder = self.root.join(name).join(&machine);
        // The name contains the process id because several processes can save at the same time.
        let staging = self
            .root
            .join(name)
            .join(format!(".{machine}.{}.new", std::process::id()));
        let written = write_baseline(&staging, &saved, &records).and_then(|()| replace(&staging, &folder));
        if written.is_err() {
            // Return the error of the write, not one of the clean-up.
            let _ = fs::remove_dir_all(&staging);
        }
        written.map(|()| saved)
    }

    /// Returns all baselines, sorted by name and machine.
    ///
    /// # Errors
    /// Fails if a folder or a `baseline.json` cannot be read.
    pub fn list(&self) -> Result<Vec<BaselineInfo>, GateError> {
        let mut all = vec![];
        for name in subfolders(&self.root)? {
            for machine in subfolders(&name)? {
                let file = machine.join(BaselineInfo::FILE);
                if file.is_file() {
                    all.push(read_json(&file)?);
                }
            }
        }
        Ok(all)
    }

    /// Returns the baselines of a name, for one machine or all.
    ///
    /// # Errors
    /// Fails if the baseline does not exist, or a file cannot be read.
    pub fn get(&self, name: &str, machine: Option<&str>) -> Result<Vec<BaselineInfo>, GateError> {
        check_name(name)?;
        let mut all = self.list()?;
        all.retain(|saved| saved.name == name && machine.is_none_or(|machine| machine == saved.machine));
        match all.is_empty() {
            true => Err(self.missing(name, machine)),
            false => Ok(all),
        }
    }

    /// Returns the error for a baseline that does not exist.
    fn missing(&self, name: &str, machine: Option<&str>) -> GateError {
        let names = subfolders(&self.root).unwrap_or_default();
        GateError::NoBaseline {
            given: machine.map_or_else(|| name.to_owned(), |machine| format!("{name}/{machine}")),
            known: names.iter().map(|path| file_name(path)).collect(),
        }
    }

    /// Returns the baseline of this name to compare with `candidate`. In order of preference, it is:
    /// 1. the baseline of the same machine, backend and profile,
    /// 2. if there is only one baseline of this name: this baseline, even with differences that are not in `may_differ` (the comparison
    ///    fails and lists them),
    /// 3. if there are several: the only one whose differences are all in `may_differ`.
    ///
    /// # Errors
    /// Fails if there is no baseline of this name, if there are several and none or more than one is comparable, or if one is damaged.
    pub fn find(
        &self,
        name: &str,
        candidate: &RunMeasurements,
        may_differ: &BTreeSet<Part>,
    ) -> Result<RunMeasurements, GateError> {
        check_name(name)?;
        let machines = subfolders(&self.root.join(name))?;
        let wanted = machine_name(candidate);
        let same = machines.iter().find(|folder| file_name(folder) == wanted);
        match (same, machines.as_slice()) {
            (Some(folder), _) => RunMeasurements::read(folder),
            (None, [only]) => RunMeasurements::read(only),
            (None, []) => Err(self.missing(name, None)),
            (None, _) => {
                let (mut differences, mut comparable) = (vec![], vec![]);
                for folder in &machines {
                    let baseline = RunMeasurements::read(folder)?;
                    let mismatches = Mismatch::between(&baseline, candidate);
                    if mismatches
                        .iter()
                        .all(|mismatch| may_differ.contains(&mismatch.part))
                    {
                        comparable.push(baseline);
                    }
                    let texts: Vec<String> = mismatches.iter().map(Mismatch::to_string).collect();
                    differences.push(format!("{}: {}", file_name(folder), texts.join(", ")));
                }
                if comparable.len() == 1 {
                    return Ok(comparable.remove(0));
                }
                Err(GateError::NoMachine {
                    name: name.to_owned(),
                    differences,
                })
            }
        }
    }

    /// Removes the baselines of a name, for one machine or all. Returns the machines whose baselines were removed.
    ///
    /// # Errors
    /// Fails if the baseline does not exist, or a folder cannot be removed.
    pub fn drop(&self, name: &str, machine: Option<&str>) -> Result<Vec<String>, GateError> {
        check_name(name)?;
        let mut dropped = vec![];
        for folder in subfolders(&self.root.join(name))? {
            let found = file_name(&folder);
            if folder.join(BaselineInfo::FILE).is_file() && machine.is_none_or(|machine| machine == found) {
                fs::remove_dir_all(&folder).map_err(GateError::write(&folder))?;
                dropped.push(found);
            }
        }
        if dropped.is_empty() {
            return Err(self.missing(name, machine));
        }
        // `remove_dir` removes only empty folders, so the folder stays if it contains baselines of other machines.
        let _ = fs::remove_dir(self.root.join(name));
        Ok(dropped)
    }
}

/// Checks that a name is usable as a folder name and cannot point outside of the folder of baselines.
fn check_name(name: &str) -> Result<(), GateError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(GateError::BaselineName {
            given: name.to_owned(),
        }),
    }
}

/// Returns the subfolders of a folder, sorted by path. The list is empty if the folder does not exist.
fn subfolders(path: &Path) -> Result<Vec<PathBuf>, GateError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(GateError::read(path)(error)),
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(GateError::read(path))?;
    paths.retain(|path| path.is_dir() && !file_name(path).starts_with('.'));
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the latest attempt of every process of a run, sorted by cell and process. Removes the paths of sample files, because these files
/// stay in the run folder.
fn latest_records(run: &Path) -> Result<Vec<Record>, FolderError> {
    let LatestRecords { mut records, .. } = RunReader::new(run).latest_records()?;
    records.sort_by(|a, b| (&a.cell.id, a.repeat).cmp(&(&b.cell.id, b.repeat)));
    records.iter_mut().for_each(|record| record.samples = None);
    Ok(records)
}

/// Writes a baseline into a temporary folder.
fn write_baseline(folder: &Path, saved: &BaselineInfo, records: &[Record]) -> Result<(), GateError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(GateError::write(folder))?;
    }
    fs::create_dir_all(folder).map_err(GateError::write(folder))?;
    let path = folder.join(RECORDS_FILE);
    let write_error = |error: std::io::Error| GateError::write(&path)(error);
    let mut file = BufWriter::new(File::create(&path).map_err(write_error)?);
    for record in records {
        serde_json::to_writer(&mut file, record).map_err(|error| write_error(error.into()))?;
        file.write_all(b"\n").map_err(write_error)?;
    }
    let file = file
        .into_inner()
        .map_err(|error| write_error(error.into_error()))?;
    file.sync_all().map_err(write_error)?;
    let path = folder.join(BaselineInfo::FILE);
    let write_error = |error: std::io::Error| GateError::write(&path)(error);
    let mut text = serde_json::to_string_pretty(saved).map_err(|error| write_error(error.into()))?;
    text.push('\n');
    let mut file = File::create(&path).map_err(write_error)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(write_error)
}

/// Swaps two folders atomically.
#[cfg(target_os = "linux")]
fn exchange(new: &Path, folder: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, new, CWD, folder, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Moves the folder `new` to `folder`, replacing a folder that exists there.
fn replace(new: &Path, folder: &Path) -> Result<(), GateError> {
    let old = new.with_extension("old");
    if old.exists() {
        fs::remove_dir_all(&old).map_err(GateError::write(&old))?;
    }
    // If the system can swap two folders, the baseline exists at any time. The loop repeats the swap if another process creates the
    // baseline between a failed swap and the rename.
    loop {
        match exchange(new, folder) {
            Ok(()) => {
                let _ = fs::remove_dir_all(new);
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::rename(new, folder) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                renamed => return renamed.map_err(GateError::write(folder)),
            },
            Err(_) => break,
        }
    }
    if folder.exists() {
        fs::rename(folder, &old).map_err(GateError::write(folder))?;
    }
    if let Err(error) = fs::rename(new, folder) {
        let _ = fs::rename(&old, folder);
        return Err(GateError::write(folder)(error));
    }
    // The new baseline is in place. Leftovers of the old one are never read.
    let _ = fs::remove_dir_all(&old);
    Ok(())
}
