//! Errors of reading a run folder.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use mantissa_core::{SCHEMA_VERSION, in_one_line};

/// Error of reading a run folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder does not exist.
    #[error("run folder `{}` does not exist", .path.display())]
    NoFolder {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A file that every run has is missing.
    #[error(
        "`{}` is not a run folder: `{missing}` not found\n  hint: pass a folder that `mantissa run` created, e.g. under `reports/`; a folder without `plan.json` has no results and can be used with `--out` again",
        .path.display()
    )]
    NotARun {
        /// Path of the folder.
        path: PathBuf,
        /// Name of the missing file.
        missing: &'static str,
    },
    /// A record names samples outside of the run folder.
    #[error("`{path}` is outside the run folder")]
    Outside {
        /// Path in the record.
        path: String,
    },
    /// A file or a line cannot be read.
    #[error("cannot read {location}: {source}")]
    Read {
        /// The file or the line.
        location: Location,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file or a line does not have the format of its schema.
    #[error(
        "{location} is invalid: {}\n  hint: the file is damaged, or another version of mantissa wrote it",
        in_one_line(source)
    )]
    Malformed {
        /// The file or the line.
        location: Location,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// A file or a line was written by a later version.
    #[error(
        "{location} has schema {found}, but this build supports schemas only up to {SCHEMA_VERSION}\n  hint: update mantissa"
    )]
    NewerSchema {
        /// The file or the line.
        location: Location,
        /// Its schema version.
        found: u64,
    },
}

impl FolderError {
    /// Converts an error of the JSON parser: an I/O error becomes [`FolderError::Read`], any other
    /// [`FolderError::Malformed`].
    pub(crate) fn of_json(path: &Path, source: serde_json::Error) -> Self {
        let location = path.into();
        match source.is_io() {
            true => Self::Read {
                location,
                source: source.into(),
            },
            false => Self::Malformed { location, source },
        }
    }
}

/// A file, or a line of it.
#[derive(Debug, Clone)]
pub struct Location {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of the line, from 1. `None` for the whole file.
    pub line: Option<usize>,
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.line {
            Some(line) => write!(f, "line {line} of `{path}`"),
            None => write!(f, "`{path}`"),
        }
    }
}
