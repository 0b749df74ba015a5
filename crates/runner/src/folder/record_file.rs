//! `records.jsonl`, to which a run appends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use mantissa_core::{MAX_RECORD_BYTES, Record};
use mantissa_run_folder::RECORDS_FILE;

use super::atomic_file::{reject_hard_links, reject_link};
use crate::{RunError, error::At as _};

/// Maximum wait for the lock. A forked child process inherits the lock and holds it until it calls `exec`.
const FORK_TIMEOUT: Duration = Duration::from_millis(500);

/// The open `records.jsonl`, locked against other processes.
#[derive(Debug)]
pub(super) struct RecordFile {
    file: File,
    path: PathBuf,
    /// Total length of the complete lines, in bytes.
    complete_bytes: u64,
    /// True if an incomplete line may follow the complete lines.
    has_partial_line: bool,
}

impl RecordFile {
    /// Opens and locks `records.jsonl` in a folder. Creates the file if it is missing.
    pub(super) fn lock(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(RECORDS_FILE);
        reject_link(&path).at(&path)?;
        reject_hard_links(&path).at(&path)?;
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
                Err(fs::TryLockError::WouldBlock) if start.elapsed() < FORK_TIMEOUT => {
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
            complete_bytes: 0,
            has_partial_line: false,
        })
    }

    /// Returns true if the file has no content.
    pub(super) fn is_empty(&self) -> Result<bool, RunError> {
        Ok(self.file.metadata().at(&self.path)?.len() == 0)
    }

    /// Sets the length of the complete lines. If `cut` is true, removes the incomplete line that follows them.
    pub(super) fn set_complete_bytes(&mut self, complete_bytes: u64, cut: bool) -> Result<(), RunError> {
        (self.complete_bytes, self.has_partial_line) = (complete_bytes, cut);
        let path = self.path.clone();
        self.remove_partial_line(&path).at(&path)
    }

    /// Checks that the path still leads to the open file.
    ///
    /// # Errors
    /// [`RunError::Moved`].
    #[cfg(unix)]
    pub(super) fn check_path(&self) -> Result<(), RunError> {
        use std::os::unix::fs::MetadataExt as _;
        let open = self.file.metadata().at(&self.path)?;
        let at_path = fs::metadata(&self.path);
        match at_path.is_ok_and(|found| (found.dev(), found.ino()) == (open.dev(), open.ino())) {
            true => Ok(()),
            false => Err(self.moved_error("replaced or removed")),
        }
    }

    fn moved_error(&self, outcome: &str) -> RunError {
        RunError::Moved {
            path: self.path.clone(),
            outcome: outcome.to_owned(),
        }
    }

    /// Appends one record and syncs it to disk. A record that cannot be written completely is removed again. `folder` is a path of the
    /// run folder that stays valid if the folder is renamed.
    pub(super) fn append(&mut self, record: &Record, folder: &Path) -> Result<(), RunError> {
        let path = folder.join(RECORDS_FILE);
        let mut line = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .at(&self.path)?;
        line.push(b'\n');
        if line.len() as u64 > MAX_RECORD_BYTES {
            return Err(RunError::Input(format!(
                "the record of a cell has {} bytes; the maximum is {MAX_RECORD_BYTES}",
                line.len()
            )));
        }
        self.remove_partial_line(&path).at(&self.path)?;
        if self.file.metadata().at(&self.path)?.len() != self.complete_bytes {
            return Err(self.moved_error("written to by another program"));
        }
        self.has_partial_line = true;
        if let Err(error) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // If this fails, the incomplete line is removed when the folder is opened again.
            let _ = self.remove_partial_line(&path);
            return Err(error).at(&self.path);
        }
        self.has_partial_line = false;
        self.complete_bytes += line.len() as u64;
        Ok(())
    }

    /// Removes the incomplete line after the complete lines, if there is one.
    fn remove_partial_line(&mut self, path: &Path) -> io::Result<()> {
        if self.has_partial_line {
            // Some systems cannot truncate a file that is open in append mode.
            let writable = OpenOptions::new().write(true).open(path)?;
            writable.set_len(self.complete_bytes)?;
            writable.sync_all()?;
            self.has_partial_line = false;
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
    fn a_failed_append_leaves_no_partial_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = RecordFile::lock(dir.path()).unwrap();
        records
            .append(&testing::record(Status::Ok, 0), dir.path())
            .unwrap();
        let path = dir.path().join(RECORDS_FILE);
        let before = fs::read(&path).unwrap();
        // State after the disk is full: part of the line was written and further writes fail.
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"schema\":1,")
            .unwrap();
        records.has_partial_line = true;
        let writable = std::mem::replace(&mut records.file, File::open(&path).unwrap());
        assert!(
            records
                .append(&testing::record(Status::Ok, 1), dir.path())
                .is_err()
        );
        assert_eq!(fs::read(&path).unwrap(), before);
        records.file = writable;
        records
            .append(&testing::record(Status::Ok, 2), dir.path())
            .unwrap();
        assert_eq!(testing::records(dir.path()).len(), 2);
    }
}
