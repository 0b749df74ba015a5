//! JSON files.

use std::{
    io::{BufReader, Seek as _},
    path::Path,
};

use mantissa_core::{SCHEMA_VERSION, open_regular};
use serde::{Deserialize, de::DeserializeOwned};

use crate::FolderError;

/// Schema version of a file or a line; 0 if it has no version, as in files whose format never changed.
#[derive(Deserialize)]
pub(crate) struct Version {
    #[serde(default)]
    schema: u64,
}

impl Version {
    /// Returns the version if it is newer than this build supports.
    pub(crate) fn unsupported(&self) -> Option<u64> {
        (self.schema > u64::from(SCHEMA_VERSION)).then_some(self.schema)
    }
}

/// Reads a JSON file. The version is checked first because a later version may have another structure.
///
/// # Errors
/// [`FolderError::Read`], [`FolderError::Malformed`] or [`FolderError::NewerSchema`].
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let unreadable = |source| FolderError::Read {
        location: path.into(),
        source,
    };
    let malformed = |error| FolderError::of_json(path, error);
    let mut file = open_regular(path).map_err(unreadable)?;
    let version: Version = serde_json::from_reader(BufReader::new(&file)).map_err(malformed)?;
    if let Some(found) = version.unsupported() {
        return Err(FolderError::NewerSchema {
            location: path.into(),
            found,
        });
    }
    file.rewind().map_err(unreadable)?;
    serde_json::from_reader(BufReader::new(file)).map_err(malformed)
}
