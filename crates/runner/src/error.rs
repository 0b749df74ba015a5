//! Why a run could not be made or go on. What goes wrong inside a cell is a record, not an error.

use std::path::{Path, PathBuf};

use mantissa_core::{Backend, RecordError, in_one_line};

use crate::Signal;

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder holds a run already.
    #[error("`{}` holds a run already\n  hint: `--resume {}` runs what it lacks; recorded data is never overwritten", .path.display(), .path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds no run.
    #[error("`{}` is no run folder: `{missing}` is not there\n  hint: a run folder is what `mantissa run` made, e.g. under `reports/`; one without `plan.json` was left before anything ran and can be given to `--out` again", .path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// The file that it lacks.
        missing: &'static str,
    },
    /// Another process writes to the folder.
    #[error("`{}` is being written to by another process", .path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// There is no room for a file.
    #[error("`{}`: {source}\n  hint: make room, then go on with `--resume`: what was recorded is whole", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A worker could not write its samples, which no other one would.
    #[error(
        "the samples could not be written: {0}\n  hint: make room, then go on with `--resume`: what was recorded is whole"
    )]
    Samples(String),
    /// Somebody else computes on the GPU, and the run is not to go on beside them.
    #[error(
        "GPU `{gpu}` is used by {processes}\n  hint: go on with `--resume` when it is free, or begin with `--busy warn`"
    )]
    Busy {
        /// UUID of the GPU.
        gpu: String,
        /// Their numbers, in words.
        processes: String,
    },
    /// The operating system refused something.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the run folder is not what a run writes.
    #[error("`{}`: {}\n  hint: it may be of another version of mantissa, which alone can go on with its run", .path.display(), in_one_line(source))]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The records cannot be read.
    #[error("`{}`: {source}", .path.display())]
    Records {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: RecordError,
    },
    /// Data, vocabulary or weights of the user's are wrong, which no other cell would change.
    #[error("{0}")]
    Input(String),
    /// A backend was asked for by name and is not to be had.
    #[error("backend `{backend}` is not available: {reason}")]
    Unavailable {
        /// The backend.
        backend: Backend,
        /// What is missing, in one line.
        reason: String,
    },
    /// The folder of the run, or its records, were renamed, removed or changed by another program.
    #[error("`{}` was {outcome} while the run went on", .path.display())]
    Moved {
        /// Its path when the run started.
        path: PathBuf,
        /// The change and a hint.
        outcome: String,
    },
    /// A signal ended the run before its first cell.
    #[error("stopped before the first cell")]
    Stopped(Signal),
    /// No worker process could be started.
    #[error("cannot start a worker process: {0}")]
    Worker(#[source] std::io::Error),
}

/// Puts the path beside what the system said.
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
