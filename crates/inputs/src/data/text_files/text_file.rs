//! File of running text: plain text or JSON Lines, which may be gzipped.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use mantissa_core::open_regular;

use super::documents::{DocumentSplitter, OnPiece, Piece};
use crate::data::{
    ColumnNames, DataError, LineProblem,
    column_names::{TEXT_COLUMNS, unused_columns_note},
    detect::Content,
    examples::Part,
    json_lines::{Line, SameKeyCheck},
    subwords,
};

/// Number of bytes that are read from a file at a time.
pub(super) const READ_BYTES: usize = 1 << 20;
/// Maximum length of a line in a JSON Lines file, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;

/// File of running text with its part of the data set.
pub(super) struct TextFile {
    pub part: Part,
    pub path: PathBuf,
    pub form: Form,
}

/// Format of a file of running text. The hash of a corpus contains the `Debug` output, so the names of this struct and its fields must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// True for one JSON object per line, false for text.
    pub lines: bool,
    gzip: bool,
}

impl Form {
    /// Returns the format of running text, or `None` for other content.
    pub fn of(content: &Content) -> Option<Self> {
        match *content {
            Content::Text { gzip } => Some(Self { lines: false, gzip }),
            Content::Lines { gzip, .. } => Some(Self { lines: true, gzip }),
            _ => None,
        }
    }

    /// Like [`of`](Self::of), but requires the file extension of a text, because folders also contain files such as a `README`.
    pub fn in_folder(name: &str, content: &Content) -> Option<Self> {
        let name = name.to_lowercase();
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        // The files of WikiText are named `wiki.test.tokens` and `wiki.test.raw`.
        let mut ends = [".txt", ".text", ".tokens", ".raw", ".jsonl", ".ndjson", ".json"].iter();
        ends.any(|end| stem.ends_with(end)).then(|| Self::of(content))?
    }

    fn open(self, path: &Path) -> std::io::Result<Box<dyn BufRead>> {
        let file = open_regular(path)?;
        Ok(match self.gzip {
            true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
            false => Box::new(BufReader::new(file)),
        })
    }
}

impl TextFile {
    fn open(&self) -> Result<Box<dyn BufRead>, DataError> {
        self.form.open(&self.path).map_err(DataError::read(&self.path))
    }

    /// Returns a function that converts an error of reading, after `lines` lines were read.
    fn read_error(&self, lines: u64) -> impl FnOnce(std::io::Error) -> DataError {
        move |error| match self.form.gzip {
            true => LineProblem::Compression(error.to_string()).at(&self.path, lines + 1),
            false => DataError::read(&self.path)(error),
        }
    }

    /// Returns a note on the keys of the first JSON line that are not read.
    pub fn unread_keys(&self, columns: &ColumnNames) -> Option<String> {
        let mut first = String::new();
        let mut reader = self.open().ok()?.take(MAX_LINE_BYTES as u64);
        while first.trim().is_empty() {
            first.clear();
            // Ignore errors here. They are reported when the whole file is read.
            if reader.read_line(&mut first).ok()? == 0 {
                return None;
            }
        }
        let line = Line::read(first.trim_start_matches('\u{feff}').trim()).ok()?;
        unused_columns_note(
            &self.path,
            line.other_keys(columns.text.as_deref(), &TEXT_COLUMNS),
        )
    }

    /// Reads one document per line. Skips empty lines and empty texts.
    pub fn read_json_lines(
        &self,
        column: Option<&str>,
        limit: usize,
        on_piece: &mut OnPiece<'_>,
    ) -> Result<(), DataError> {
        let mut reader = self.open()?;
        let mut key = SameKeyCheck::new("text");
        let mut bytes = vec![];
        for number in 1.. {
            bytes.clear();
            let max_bytes = MAX_LINE_BYTES as u64 + 1;
            let read = reader.by_ref().take(max_bytes).read_until(b'\n', &mut bytes);
            if read.map_err(self.read_error(number - 1))? == 0 {
                break;
            }
            let at = |problem: LineProblem| problem.at(&self.path, number);
            if bytes.len() > MAX_LINE_BYTES {
                return Err(at(LineProblem::LongLine {
                    mib: MAX_LINE_BYTES >> 20,
                }));
            }
            let line = str::from_utf8(&bytes).map_err(|_| at(LineProblem::NotUtf8))?;
            let line = line.trim_start_matches('\u{feff}').trim();
            if line.is_empty() {
                continue;
            }
            let line = Line::read(line).map_err(at)?;
            let text = line.text(column).map_err(at)?;
            key.check(line.key(column, &TEXT_COLUMNS)).map_err(at)?;
            if !text.trim().is_empty() {
                for (index, text) in subwords::parts(text, limit).enumerate() {
                    on_piece(Piece {
                        part: self.part,
                        begins: index == 0,
                        text,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Reads documents separated by `<|endoftext|>`.
    pub fn read_text(&self, limit: usize, on_piece: &mut OnPiece<'_>) -> Result<(), DataError> {
        let mut reader = self.open()?;
        let mut splitter = DocumentSplitter::new(self.part, limit);
        let (mut bytes, mut lines, mut first) = (vec![], 0, true);
        loop {
            let read = reader.by_ref().take(READ_BYTES as u64).read_to_end(&mut bytes);
            let read = read.map_err(self.read_error(lines))?;
            let valid = match str::from_utf8(&bytes) {
                Ok(text) => text.len(),
                // The bytes end within a character. Keep its first bytes for the next read.
                Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
                Err(error) => {
                    lines += count_line_ends(&bytes[..error.valid_up_to()]);
                    return Err(LineProblem::NotUtf8.at(&self.path, lines + 1));
                }
            };
            lines += count_line_ends(&bytes[..valid]);
            let text = str::from_utf8(&bytes[..valid]).unwrap_or_default();
            let text = match first {
                true => text.strip_prefix('\u{feff}').unwrap_or(text),
                false => text,
            };
            first &= valid == 0;
            splitter.add(text, on_piece)?;
            bytes.drain(..valid);
            if read == 0 {
                return splitter.finish(on_piece);
            }
        }
    }
}

fn count_line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
