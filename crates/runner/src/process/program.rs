//! Program of the workers.

use std::{fs::File, path::PathBuf};

use mantissa_core::open_own_program;

use crate::RunError;

/// Program that stays the same during a run, even if a build replaces its file.
pub(super) struct Program {
    path: PathBuf,
    /// Open file of the program at the start of the run. Without one, the system resolves the path at the start of each worker.
    file: Option<File>,
}

impl Program {
    pub(super) fn this() -> Result<Self, RunError> {
        Ok(Self {
            path: std::env::current_exe().map_err(RunError::Worker)?,
            file: Some(open_own_program().map_err(RunError::Worker)?),
        })
    }

    pub(super) fn of(path: PathBuf) -> Self {
        Self {
            file: File::open(&path).ok(),
            path,
        }
    }

    /// Returns the path of the program at the start of the run.
    #[cfg(unix)]
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns a path that executes the open file, also for processes that a child process starts.
    pub(super) fn executable(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            match &self.file {
                Some(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into(),
                None => self.path.clone(),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = &self.file;
            self.path.clone()
        }
    }
}
