//! Decodes the bytes of a text file: gzip, UTF-8 and the line ends of old systems.

use std::{borrow::Cow, io::Read, path::Path};

use flate2::read::MultiGzDecoder;

use super::{DataError, LineProblem};
use crate::contents::max_unpacked_size;

/// Unpacks a gzipped file.
pub(super) fn unpack(bytes: &[u8], file: &Path) -> Result<Vec<u8>, DataError> {
    let mut unpacked = vec![];
    let limit = max_unpacked_size(bytes.len() as u64);
    let read = MultiGzDecoder::new(bytes)
        .take(limit + 1)
        .read_to_end(&mut unpacked);
    let at_end = |problem: LineProblem, unpacked: &[u8]| {
        let whole_lines = unpacked.iter().filter(|&&byte| byte == b'\n').count();
        problem.at(file, whole_lines as u64 + 1)
    };
    if let Err(error) = read {
        return Err(at_end(LineProblem::Compression(error.to_string()), &unpacked));
    }
    if unpacked.len() as u64 > limit {
        return Err(at_end(LineProblem::Expansion { limit }, &unpacked));
    }
    Ok(unpacked)
}

/// Returns `bytes` as text without a byte order mark. Fails with the line number if the text is not UTF-8 or contains a NUL character.
pub(super) fn utf8<'a>(bytes: &'a [u8], file: &Path) -> Result<&'a str, DataError> {
    let line = |until: usize| bytes[..until].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
    let text =
        str::from_utf8(bytes).map_err(|error| LineProblem::NotUtf8.at(file, line(error.valid_up_to())))?;
    match text.find('\0') {
        Some(at) => Err(LineProblem::Nul.at(file, line(at))),
        None => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
    }
}

/// Replaces carriage returns by line feeds if the text does not contain a line feed. Old systems, such as classic Mac OS, end lines with a
/// carriage return only.
pub(super) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    match text.contains('\r') && !text.contains('\n') {
        true => text.replace('\r', "\n").into(),
        false => text.into(),
    }
}
