//! Files with one JSON value per line.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use mantissa_core::{LONGEST_RECORD, Record, open_regular, read_line};
use serde::de::DeserializeOwned;

use crate::{FolderError, Location, json_file::Version};

/// Records of `records.jsonl`.
pub type RecordReader<R = BufReader<File>> = JsonLines<Record, R>;

/// Iterator over the values of a file with one JSON value per line. Keeps one line in memory, and skips blank lines. Ends at the first
/// error, and before a last line without a line end, which was truncated by a crash or a full disk.
#[derive(Debug)]
pub struct JsonLines<T, R = BufReader<File>> {
    path: PathBuf,
    source: R,
    text: Vec<u8>,
    line: usize,
    whole_bytes: u64,
    cut: bool,
    ended: bool,
    values: PhantomData<T>,
}

impl<T: DeserializeOwned> JsonLines<T> {
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

impl<T: DeserializeOwned, R: BufRead> JsonLines<T, R> {
    /// Creates a reader for a source at the start of the file. `path` is the path in errors.
    pub fn new(path: &Path, source: R) -> Self {
        Self {
            path: path.to_owned(),
            source,
            text: vec![],
            line: 0,
            whole_bytes: 0,
            cut: false,
            ended: false,
            values: PhantomData,
        }
    }

    /// Returns the number of the last line read, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the length in bytes of the complete lines read so far. After the last value, anything behind them is a truncated line.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Returns true if the last line is truncated.
    pub fn cut(&self) -> bool {
        self.cut
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
            let read = read_line(&mut self.source, &mut self.text, LONGEST_RECORD);
            let read = read.map_err(|source| FolderError::Read {
                location: self.location(),
                source,
            })?;
            if read == 0 {
                return Ok(None);
            }
            if self.text.last() != Some(&b'\n') {
                self.cut = true;
                return Ok(None);
            }
            let blank = self.text.trim_ascii().is_empty();
            let value = (!blank).then(|| self.parse()).transpose()?;
            self.whole_bytes += self.text.len() as u64;
            if value.is_some() {
                return Ok(value);
            }
        }
    }

    /// Parses the line. The version is checked first because a later version may have another structure.
    fn parse(&self) -> Result<T, FolderError> {
        let malformed = |source| FolderError::Malformed {
            location: self.location(),
            source,
        };
        let version: Version = serde_json::from_slice(&self.text).map_err(malformed)?;
        match version.newer() {
            Some(found) => Err(FolderError::NewerSchema {
                location: self.location(),
                found,
            }),
            None => serde_json::from_slice(&self.text).map_err(malformed),
        }
    }
}

impl<T: DeserializeOwned, R: BufRead> Iterator for JsonLines<T, R> {
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
