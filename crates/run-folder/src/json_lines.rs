//! Files with one JSON value per line.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use mantissa_core::{MAX_RECORD_BYTES, Record, SCHEMA_VERSION, open_regular, read_line};
use serde::de::DeserializeOwned;

use crate::{FolderError, Location, json_file::Version};

/// Value of a line.
pub trait JsonLine: DeserializeOwned {
    /// Returns the schema version.
    fn schema(&self) -> u32;
}

impl JsonLine for Record {
    fn schema(&self) -> u32 {
        self.schema
    }
}

/// Records of `records.jsonl`.
pub type RecordReader<R = BufReader<File>> = JsonLines<Record, R>;

/// Iterator over the values of a file with one JSON value per line. Keeps one line in memory, and skips blank lines. Ends after the
/// first error. Skips a last line without a line break, which a crash or a full disk truncated.
#[derive(Debug)]
pub struct JsonLines<T, R = BufReader<File>> {
    path: PathBuf,
    source: R,
    text: Vec<u8>,
    line: usize,
    complete_bytes: u64,
    is_truncated: bool,
    ended: bool,
    values: PhantomData<T>,
}

impl<T: JsonLine> JsonLines<T> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`FolderError::Read`] if the file is missing, not a regular file, or not readable.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let file = open_regular(path).map_err(|source| FolderError::Read {
            location: path.into(),
            source,
        })?;
        Ok(Self::new(path, BufReader::with_capacity(1 << 18, file)))
    }
}

impl<T: JsonLine, R: BufRead> JsonLines<T, R> {
    /// Creates a reader for a source that is at the start of a file. `path` is the path in errors.
    pub fn new(path: &Path, source: R) -> Self {
        Self {
            path: path.to_owned(),
            source,
            text: vec![],
            line: 0,
            complete_bytes: 0,
            is_truncated: false,
            ended: false,
            values: PhantomData,
        }
    }

    /// Returns the number of the line that was read last, from 1. After the end of a complete file, returns one more
    /// than the number of lines.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the total length in bytes of the complete lines read so far. If the iterator ended without an error, any
    /// bytes after these lines belong to a truncated line.
    pub fn complete_bytes(&self) -> u64 {
        self.complete_bytes
    }

    /// Returns true if the last line is truncated.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    fn location(&self) -> Location {
        Location {
            path: self.path.clone(),
            line: Some(self.line),
        }
    }

    /// Reads the next complete line that is not blank.
    fn advance(&mut self) -> Result<Option<T>, FolderError> {
        loop {
            self.line += 1;
            let read = read_line(&mut self.source, &mut self.text, MAX_RECORD_BYTES);
            let read = read.map_err(|source| FolderError::Read {
                location: self.location(),
                source,
            })?;
            if read == 0 {
                return Ok(None);
            }
            if self.text.last() != Some(&b'\n') {
                self.is_truncated = true;
                return Ok(None);
            }
            let blank = self.text.trim_ascii().is_empty();
            let value = (!blank).then(|| self.parse()).transpose()?;
            self.complete_bytes += self.text.len() as u64;
            if value.is_some() {
                return Ok(value);
            }
        }
    }

    /// Parses the line. A line of a later version may have another structure, so its version is checked even if parsing fails.
    fn parse(&self) -> Result<T, FolderError> {
        let newer = |found| FolderError::NewerSchema {
            location: self.location(),
            found,
        };
        match serde_json::from_slice::<T>(&self.text) {
            Ok(value) if value.schema() > SCHEMA_VERSION => Err(newer(value.schema().into())),
            Ok(value) => Ok(value),
            Err(source) => {
                let version: Option<Version> = serde_json::from_slice(&self.text).ok();
                Err(match version.and_then(|version| version.unsupported()) {
                    Some(found) => newer(found),
                    None => FolderError::Malformed {
                        location: self.location(),
                        source,
                    },
                })
            }
        }
    }
}

impl<T: JsonLine, R: BufRead> Iterator for JsonLines<T, R> {
    type Item = Result<T, FolderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
