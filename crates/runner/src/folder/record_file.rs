//! `records.jsonl`, to which a run appends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use mantissa_core::{LONGEST_RECORD, Record};
use mantissa_run_folder::RECORDS_FILE;

use super::atomic_file::{refuse_link, refuse_second_name};
use crate::{RunError, error::At as _};

/// Maximum time for which a forked process that has not yet called `exec` can hold a lock.
const FORKED: Duration = Duration::from_millis(500);

/// The open `records.jsonl`, locked against other processes.
#[derive(Debug)]
pub(super) struct RecordFile {
    file: File,
    path: PathBuf,
    /// Length of the complete lines, in bytes.
    whole_bytes: u64,
    /// True if an incomplete line may follow them.
    torn: bool,
}

impl RecordFile {
    /// Opens the records of a folder, which are created if they are missing, and locks them.
    pub(super) fn lock(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(RECORDS_FILE);
        refuse_link(&path).at(&path)?;
        refuse_second_name(&path).at(&path)?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .at(&path)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // A forked child inherits all open files until it calls `exec`.
                Err(fs::TryLockError::WouldBlock) if start.elapsed() < FORKED => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    let path = folder.to_owned();
                    return Err(RunError::Locked { path });
                }
                Err(fs::TryLockError::Error(error)) => return Err(error).at(&path),
            }
        }
        Ok(Self {
            file,
            path,
            whole_bytes: 0,
            torn: false,
        })
    }

    /// Returns true if the file has no content.
    pub(super) fn is_empty(&self) -> Result<bool, RunError> {
        Ok(self.file.metadata().at(&self.path)?.len() == 0)
    }

    /// Keeps the complete lines at the start of the file. Removes the incomplete line that follows them if the file is `cut`.
    pub(super) fn keep(&mut self, whole_bytes: u64, cut: bool) -> Result<(), RunError> {
        (self.whole_bytes, self.torn) = (whole_bytes, cut);
        let path = self.path.clone();
        self.mend(&path).at(&path)
    }

    /// Checks that the file still has its path.
    ///
    /// # Errors
    /// [`RunError::Moved`].
    #[cfg(unix)]
    pub(super) fn check_path(&self) -> Result<(), RunError> {
        use std::os::unix::fs::MetadataExt as _;
        let open = self.file.metadata().at(&self.path)?;
        let named = fs::metadata(&self.path);
        match named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
            true => Ok(()),
            false => Err(self.moved("replaced or removed")),
        }
    }

    fn moved(&self, outcome: &str) -> RunError {
        RunError::Moved {
            path: self.path.clone(),
            outcome: outcome.to_owned(),
        }
    }

    /// Appends one record and syncs it to disk. A record that cannot be written completely is removed again. `folder` is a path of the
    /// run folder that stays valid if the folder is renamed.
    pub(super) fn append(&mut self, record: &Record, folder: &Path) -> Result<(), RunError> {
        let place = folder.join(RECORDS_FILE);
        let mut line = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .at(&self.path)?;
        line.push(b'\n');
        if line.len() as u64 > LONGEST_RECORD {
            return Err(RunError::Input(format!(
                "the record of a cell has {} bytes; the maximum is {LONGEST_RECORD}",
                line.len()
            )));
        }
        self.mend(&place).at(&self.path)?;
        if self.file.metadata().at(&self.path)?.len() != self.whole_bytes {
            return Err(self.moved("written to by another program"));
        }
        self.torn = true;
        if let Err(error) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // If this fails, the incomplete line is removed when the folder is opened again.
            let _ = self.mend(&place);
            return Err(error).at(&self.path);
        }
        self.torn = false;
        self.whole_bytes += line.len() as u64;
        Ok(())
    }

    /// Removes an incomplete line after the complete ones.
    fn mend(&mut self, place: &Path) -> io::Result<()> {
        if self.torn {
            // Some systems cannot truncate a file that is open in append mode.
            let writable = OpenOptions::new().write(true).open(place)?;
            writable.set_len(self.whole_bytes)?;
            writable.sync_all()?;
            self.torn = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::Status;

    use super::*;
    use crate::testing;

    #[test]
    fn a_record_that_could_not_be_appended_leaves_no_part_of_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = RecordFile::lock(dir.path()).unwrap();
        records
            .append(&testing::record(Status::Ok, 0), dir.path())
            .unwrap();
        let path = dir.path().join(RECORDS_FILE);
        let whole = fs::read(&path).unwrap();
        // State after the disk is full: part of the line was written and further writes fail.
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"schema\":1,")
            .unwrap();
        records.torn = true;
        let writable = std::mem::replace(&mut records.file, File::open(&path).unwrap());
        assert!(
            records
                .append(&testing::record(Status::Ok, 1), dir.path())
                .is_err()
        );
        assert_eq!(fs::read(&path).unwrap(), whole);
        records.file = writable;
        records
            .append(&testing::record(Status::Ok, 2), dir.path())
            .unwrap();
        assert_eq!(testing::records(dir.path()).len(), 2);
    }
}
