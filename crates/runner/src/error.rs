//! Errors that prevent a run from starting or continuing. A failure of a cell is a record and not an error.

use std::path::{Path, PathBuf};

use mantissa_core::{Backend, RecordError, in_one_line};

use crate::Signal;

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder already contains a run.
    #[error("`{}` holds a run already\n  hint: `--resume {}` runs what it lacks; recorded data is never overwritten", .path.display(), .path.display())]
    Occupied {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The folder does not contain a run.
    #[error("`{}` is no run folder: `{missing}` is not there\n  hint: a run folder is what `mantissa run` made, e.g. under `reports/`; one without `plan.json` was left before anything ran and can be given to `--out` again", .path.display())]
    NoRun {
        /// Path of the folder.
        path: PathBuf,
        /// Name of the missing file.
        missing: &'static str,
    },
    /// Another process writes to the folder.
    #[error("`{}` is being written to by another process", .path.display())]
    Locked {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The disk is full, or a quota or size limit is reached.
    #[error("`{}`: {source}\n  hint: make room, then go on with `--resume`: what was recorded is whole", .path.display())]
    Full {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A worker could not write its samples. Other workers would fail as well.
    #[error(
        "the samples could not be written: {0}\n  hint: make room, then go on with `--resume`: what was recorded is whole"
    )]
    Samples(String),
    /// Another process computes on the GPU, and the policy does not allow the run to continue.
    #[error(
        "GPU `{gpu}` is used by {processes}\n  hint: go on with `--resume` when it is free, or begin with `--busy warn`"
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
    /// A file of the run folder is invalid.
    #[error("`{}`: {}\n  hint: it may be of another version of mantissa, which alone can go on with its run", .path.display(), in_one_line(source))]
    Json {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The records cannot be read.
    #[error("`{}`: {source}", .path.display())]
    Records {
        /// Path of the file.
        path: PathBuf,
        /// Error of the reader.
        source: RecordError,
    },
    /// Data, vocabulary, weights or options are invalid, which affects every cell.
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
    #[error("`{}` was {outcome} while the run went on", .path.display())]
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
