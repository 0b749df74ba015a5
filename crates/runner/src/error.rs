//! Errors that prevent a run from starting or continuing. A failure of a cell is a record and not an error.

use std::path::{Path, PathBuf};

use mantissa_core::Backend;
use mantissa_run_folder::FolderError;

use crate::Signal;

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder already contains a run.
    #[error("`{}` already contains a run\n  hint: run its missing cells with `--resume {}`, or choose another folder", .path.display(), .path.display())]
    Occupied {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The run folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Another process writes to the folder.
    #[error("`{}` is being written to by another process", .path.display())]
    Locked {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The disk is full, or a quota or size limit is reached.
    #[error("cannot write `{}`: {source}\n  hint: free disk space, then continue with `--resume`; the records are complete", .path.display())]
    Full {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A worker could not write samples. Other workers would fail as well.
    #[error(
        "cannot write the samples: {0}\n  hint: free disk space, then continue with `--resume`; the records are complete"
    )]
    Samples(String),
    /// Another process computes on the GPU, and the policy does not allow the run to continue.
    #[error(
        "GPU `{gpu}` is used by {processes}\n  hint: continue with `--resume` when the GPU is free, or start with `--busy warn`"
    )]
    Busy {
        /// UUID of the GPU.
        gpu: String,
        /// Process ids as text.
        processes: String,
    },
    /// An I/O error.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Data, vocabulary, weights or options are invalid. Every cell would fail.
    #[error("{0}")]
    Input(String),
    /// The requested backend is not available.
    #[error("backend `{backend}` is not available: {reason}")]
    Unavailable {
        /// Name of the backend.
        backend: Backend,
        /// Missing library or device, on one line.
        reason: String,
    },
    /// Another program renamed, removed or changed the run folder or its records.
    #[error("during the run, `{}` was {outcome}", .path.display())]
    Moved {
        /// Path at the start of the run.
        path: PathBuf,
        /// Change and hint.
        outcome: String,
    },
    /// A signal stopped the run before its first cell.
    #[error("stopped before the first cell")]
    Stopped(Signal),
    /// No worker process could be started.
    #[error("cannot start a worker process: {0}")]
    Worker(#[source] std::io::Error),
}

/// Adds a path to an I/O error.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, RunError>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path) -> Result<T, RunError> {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_owned();
        self.map_err(|source| match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => RunError::Full { path, source },
            _ => RunError::Io { path, source },
        })
    }
}
