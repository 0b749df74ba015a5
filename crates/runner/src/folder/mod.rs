//! Run folder. Records are appended and synced, and recorded data is never overwritten.

mod atomic_file;
mod attempt_files;
mod record_file;
mod settings;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use mantissa_core::{CellId, Environment, Plan, PlannedCell, Record, create_folder_below};
use mantissa_run_folder::{
    DEVICES_FILE, ENVIRONMENT_FILE, FolderError, PLAN_FILE, RunReader, SETTINGS_FILE, SUITES_FOLDER,
};

pub(crate) use self::{
    atomic_file::reject_link,
    attempt_files::{has_samples, write_output},
};
use self::{
    atomic_file::{replace, sync_directory, write_json},
    record_file::RecordFile,
};
pub use self::{
    attempt_files::write_samples,
    settings::{CACHE, RunSettings, read_plan_and_settings},
};
use crate::{RunError, cooldown::GpuBaseline, error::At as _, ledger::Ledger};

/// Open run folder, locked against other processes.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Handle of the folder, which stays valid if the folder is renamed.
    handle: File,
    records: RecordFile,
    ledger: Ledger,
    devices: BTreeMap<String, GpuBaseline>,
    /// Plan of the run.
    pub plan: Arc<Plan>,
    /// Settings of the run.
    pub settings: RunSettings,
    /// Environment of the run.
    pub environment: Environment,
}

impl RunFolder {
    /// Creates the folder of a new run with a copy of each suite; `suites` maps names to contents. The plan is written
    /// last. A folder without a plan is not a run, so a new run can use it.
    ///
    /// # Errors
    /// [`RunError::Occupied`] if the folder contains a run; I/O errors.
    pub fn create(
        path: &Path,
        plan: Plan,
        settings: RunSettings,
        suites: &BTreeMap<String, String>,
        environment: Environment,
    ) -> Result<Self, RunError> {
        let suites_folder =
            create_folder_below(path, Path::new(SUITES_FOLDER)).at(&path.join(SUITES_FOLDER))?;
        let records = RecordFile::lock(path)?;
        if path.join(PLAN_FILE).exists() || !records.is_empty()? {
            return Err(RunError::Occupied {
                path: path.to_owned(),
            });
        }
        for (name, text) in suites {
            let file = suites_folder.join(format!("{name}.toml"));
            replace(&file, |file| file.write_all(text.as_bytes()))?;
        }
        write_json(&path.join(ENVIRONMENT_FILE), &environment)?;
        write_json(&path.join(SETTINGS_FILE), &settings)?;
        sync_directory(path).at(path)?;
        write_json(&path.join(PLAN_FILE), &plan)?;
        sync_directory(path).at(path)?;
        Ok(Self {
            path: path.to_owned(),
            handle: File::open(path).at(path)?,
            records,
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
    /// [`RunError::Folder`] or [`RunError::Locked`].
    pub fn open(path: &Path) -> Result<(Self, bool), RunError> {
        let (plan, settings) = read_plan_and_settings(path)?;
        let reader = RunReader::new(path);
        let environment = reader.environment()?;
        let devices = match reader.json(DEVICES_FILE) {
            // A run without a GPU does not have this file.
            Err(FolderError::NotARun { .. }) => BTreeMap::new(),
            read => read?,
        };
        let mut records = RecordFile::lock(path)?;
        let mut reader = reader.records()?;
        let mut ledger = Ledger::default();
        for record in reader.by_ref() {
            ledger.add(&record?);
        }
        records.set_complete_bytes(reader.complete_bytes(), reader.is_truncated())?;
        let folder = Self {
            path: path.to_owned(),
            handle: File::open(path).at(path)?,
            records,
            ledger,
            devices,
            plan: Arc::new(plan),
            settings,
            environment,
        };
        Ok((folder, reader.is_truncated()))
    }

    /// Increases the number of repeats of each cell.
    ///
    /// # Errors
    /// Fewer repeats than already planned; I/O errors.
    pub(crate) fn increase_repeats(&mut self, repeats: u32) -> Result<(), RunError> {
        let planned = self.settings.repeats;
        if repeats < planned {
            let error = format!(
                "`{}` has {planned} repeats, which cannot be reduced to {repeats}",
                self.path.display()
            );
            return Err(RunError::Input(error));
        }
        let of_suites = self.settings.suite_repeats.values_mut();
        let of_all = of_suites.chain([&mut self.settings.repeats]);
        let fewer: Vec<&mut u32> = of_all.filter(|planned| **planned < repeats).collect();
        if !fewer.is_empty() {
            fewer.into_iter().for_each(|planned| *planned = repeats);
            write_json(&self.path.join(SETTINGS_FILE), &self.settings)?;
            sync_directory(&self.path).at(&self.path)?;
        }
        Ok(())
    }

    /// Stores the command that starts ranks, unless it is empty or already stored. Cells that failed because of the default command can then
    /// run with another one.
    ///
    /// # Errors
    /// The run has another command, or cells that ran with the default command; I/O errors.
    pub(crate) fn store_mpirun(&mut self, mpirun: &[String]) -> Result<(), RunError> {
        let stored = &self.settings.mpirun;
        if mpirun.is_empty() || stored == mpirun {
            return Ok(());
        }
        if !stored.is_empty() {
            return Err(RunError::Input(format!(
                "`{}` was started with `--mpirun \"{}\"`, which cannot be replaced by `--mpirun \"{}\"`",
                self.path.display(),
                stored.join(" "),
                mpirun.join(" ")
            )));
        }
        let ran = |planned: &&PlannedCell| {
            let several = planned.cell.setting.devices() > 1 && self.settings.peer.is_empty();
            several && self.ledger.ran(&planned.cell)
        };
        if let Some(planned) = self.plan.cells.iter().find(ran) {
            return Err(RunError::Input(format!(
                "cannot use `--mpirun`: cells of `{}` already ran without it, such as {}, so times would not be comparable\n  hint: start a new run",
                self.path.display(),
                planned.cell.id
            )));
        }
        self.settings.mpirun.extend_from_slice(mpirun);
        write_json(&self.path.join(SETTINGS_FILE), &self.settings)?;
        sync_directory(&self.path).at(&self.path)
    }

    /// Returns the path at which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that stays valid if the folder is renamed, where the system supports it.
    pub(crate) fn stable_path(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            let path = format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd());
            if fs::metadata(&path).is_ok() {
                return path.into();
            }
        }
        self.path.clone()
    }

    /// Replaces the [`stable_path`](Self::stable_path) in an error by the path at which the folder was opened.
    pub(crate) fn with_user_path(&self, error: RunError) -> RunError {
        let stable = self.stable_path();
        let user_path = |path: PathBuf| match path.strip_prefix(&stable) {
            Ok(below) => self.path.join(below),
            Err(_) => path,
        };
        match error {
            RunError::Full { path, source } => RunError::Full {
                path: user_path(path),
                source,
            },
            RunError::Io { path, source } => RunError::Io {
                path: user_path(path),
                source,
            },
            RunError::Samples(text) => {
                let stable = stable.display().to_string();
                RunError::Samples(text.replace(&stable, &self.path.display().to_string()))
            }
            error => error,
        }
    }

    /// Checks that the folder and its records still have their paths.
    ///
    /// # Errors
    /// [`RunError::Moved`]. If the folder was renamed, the renamed folder contains the records up to now.
    pub(crate) fn check_path(&self) -> Result<(), RunError> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let open = self.handle.metadata().at(&self.path)?;
            let at_path = fs::metadata(&self.path);
            if !at_path.is_ok_and(|found| (found.dev(), found.ino()) == (open.dev(), open.ino())) {
                let now = fs::read_link(self.stable_path()).ok().filter(|now| now.is_dir());
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
            self.records.check_path()?;
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
    pub(crate) fn store_devices(&mut self, devices: &BTreeMap<String, GpuBaseline>) -> Result<(), RunError> {
        if self.devices != *devices {
            write_json(&self.stable_path().join(DEVICES_FILE), devices)?;
            sync_directory(&self.stable_path()).at(&self.path)?;
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
        self.records.append(record, &self.stable_path())?;
        self.ledger.add(record);
        Ok(())
    }

    /// Returns the path of an attempt folder, relative to the run folder.
    pub fn attempt_path(cell: &CellId, repeat: u32, attempt: u32) -> String {
        format!("cells/{cell}/{repeat}-{attempt}")
    }

    /// Creates the first attempt folder that does not exist yet, starting with the number `min_attempt`, and returns the
    /// number. Existing folders are not reused: they may have files without a record, and a worker of a killed run may
    /// still write to them.
    ///
    /// # Errors
    /// I/O errors.
    pub fn create_attempt_folder(
        &self,
        cell: &CellId,
        repeat: u32,
        min_attempt: u32,
    ) -> Result<u32, RunError> {
        let run = self.stable_path();
        let cells = run.join("cells");
        let cell_folder = cells.join(cell.as_str());
        let is_new = !cell_folder.exists();
        create_folder_below(&run, &Path::new("cells").join(cell.as_str())).at(&cell_folder)?;
        if is_new {
            sync_directory(&cells)
                .and_then(|()| sync_directory(&run))
                .at(&cells)?;
        }
        for attempt in min_attempt..u32::MAX {
            let folder = run.join(Self::attempt_path(cell, repeat, attempt));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    created.and_then(|()| sync_directory(&cell_folder)).at(&folder)?;
                    return Ok(attempt);
                }
            }
        }
        let error = format!("cell `{cell}` has no unused attempt number");
        Err(RunError::Input(error))
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Axis, AxisValue, Backend, Cell, Setting, Status, TaskKind};
    use mantissa_run_folder::RECORDS_FILE;

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
    fn a_folder_that_contains_a_run_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        drop(create(dir.path()).unwrap());
        assert!(matches!(create(dir.path()), Err(RunError::Occupied { .. })));
    }

    #[test]
    fn a_command_that_starts_ranks_is_stored_once() {
        let dir = tempfile::tempdir().unwrap();
        drop(create(dir.path()).unwrap());
        let command = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let open = || RunFolder::open(dir.path()).unwrap().0;
        open().store_mpirun(&[]).unwrap();
        assert!(open().settings.mpirun.is_empty());
        open().store_mpirun(&command("mpirun --oversubscribe")).unwrap();
        assert_eq!(open().settings.mpirun, command("mpirun --oversubscribe"));
        let mut folder = open();
        folder.store_mpirun(&command("mpirun --oversubscribe")).unwrap();
        folder.store_mpirun(&[]).unwrap();
        let error = folder.store_mpirun(&command("other")).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "was started with `--mpirun \"mpirun --oversubscribe\"`, which cannot be replaced by `--mpirun \"other\"`"
            ),
            "{error}"
        );
        drop(folder);
        assert_eq!(open().settings.mpirun, command("mpirun --oversubscribe"));
    }

    #[test]
    fn a_command_that_starts_ranks_is_not_added_to_measured_cells() {
        let mut setting = Setting::defaults(TaskKind::Train, Backend::Flex);
        setting.set(Axis::Devices, AxisValue::Integer(2)).unwrap();
        let cell = Cell::new("tiny", testing::cell(64).workload, setting, 123);
        let mut plan = testing::plan(1);
        plan.cells[0].cell = cell.clone();
        for (status, is_stored) in [(Status::Failed, true), (Status::Ok, false)] {
            let dir = tempfile::tempdir().unwrap();
            let (plan, settings) = (plan.clone(), testing::settings());
            let created = RunFolder::create(
                dir.path(),
                plan,
                settings,
                &BTreeMap::new(),
                testing::environment(),
            );
            let mut folder = created.unwrap();
            let record = Record {
                cell: cell.clone(),
                ..testing::record(status, 0)
            };
            folder.append(&record).unwrap();
            match folder.store_mpirun(&["mpirun".to_owned()]) {
                Ok(()) => assert!(is_stored, "{status}"),
                Err(error) => assert!(!is_stored && error.to_string().contains("already ran without it")),
            }
        }
    }

    #[test]
    fn repeats_of_suites_replace_those_of_the_run_and_are_increased() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = testing::settings();
        settings.repeats = 3;
        settings.suite_repeats = [("few".to_owned(), 1), ("many".to_owned(), 5)].into();
        let (plan, environment) = (testing::plan(2), testing::environment());
        drop(RunFolder::create(dir.path(), plan, settings, &BTreeMap::new(), environment).unwrap());
        let (mut folder, _) = RunFolder::open(dir.path()).unwrap();
        let repeats =
            |settings: &RunSettings| ["few", "many", "other"].map(|suite| settings.repeats_of(suite));
        assert_eq!(repeats(&folder.settings), [1, 5, 3]);
        folder.increase_repeats(4).unwrap();
        assert_eq!(repeats(&folder.settings), [4, 5, 4]);
        let (_, saved) = read_plan_and_settings(dir.path()).unwrap();
        assert_eq!(repeats(&saved), [4, 5, 4]);
        assert!(folder.increase_repeats(3).is_err());
    }

    #[test]
    fn a_folder_without_a_run_cannot_be_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let error = RunFolder::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("`plan.json` not found"), "{error}");
    }

    #[test]
    fn a_locked_folder_cannot_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let _locked = create(dir.path()).unwrap();
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
        fs::read(path.join(RECORDS_FILE)).unwrap()
    }

    #[test]
    fn truncated_records_keep_their_complete_lines() {
        let dir = tempfile::tempdir().unwrap();
        let text = three_records(dir.path());
        let file = dir.path().join(RECORDS_FILE);
        for length in 0..=text.len() {
            fs::write(&file, &text[..length]).unwrap();
            let complete = text[..length]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            let lines = text[..complete].iter().filter(|byte| **byte == b'\n').count();
            let (folder, cut) = RunFolder::open(dir.path()).unwrap();
            assert_eq!(cut, length > complete, "cut at byte {length}");
            assert_eq!(folder.ledger().records(), lines, "cut at byte {length}");
            assert_eq!(fs::read(&file).unwrap(), text[..complete], "cut at byte {length}");
        }
    }

    #[test]
    fn a_record_after_a_truncated_line_starts_a_new_line() {
        let dir = tempfile::tempdir().unwrap();
        let text = three_records(dir.path());
        fs::write(dir.path().join(RECORDS_FILE), &text[..text.len() - 2]).unwrap();
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
    fn a_folder_without_a_plan_can_be_used_again() {
        let dir = tempfile::tempdir().unwrap();
        drop(create(dir.path()).unwrap());
        for lost in [PLAN_FILE, SETTINGS_FILE, ENVIRONMENT_FILE, RECORDS_FILE] {
            // The plan is written last. Without it, any of the other files may be missing.
            fs::remove_file(dir.path().join(PLAN_FILE)).unwrap();
            let _ = fs::remove_file(dir.path().join(lost));
            fs::write(dir.path().join("plan.json.part"), "{\"profile\":").unwrap();
            assert!(matches!(
                RunFolder::open(dir.path()),
                Err(RunError::Folder(FolderError::NotARun { .. }))
            ));
            drop(create(dir.path()).unwrap());
            let (folder, cut) = RunFolder::open(dir.path()).unwrap();
            assert_eq!((folder.plan.cells.len(), cut), (2, false));
        }
    }

    #[test]
    fn every_attempt_gets_a_new_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = create(dir.path()).unwrap();
        let cell = testing::cell(64).id;
        let requests = [(0, 0), (0, 0), (1, 0), (0, 1), (0, 7)];
        let attempts = requests
            .map(|(repeat, min_attempt)| folder.create_attempt_folder(&cell, repeat, min_attempt).unwrap());
        assert_eq!(attempts, [0, 1, 0, 2, 7]);
    }
}
