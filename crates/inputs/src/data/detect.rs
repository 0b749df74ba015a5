//! Detects the kind of a data file from its content.

use std::{
    io::{self, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;
use mantissa_core::open_regular;

use super::{
    DataError,
    cifar10::{CIFAR_RECORD, has_batch_name},
    delimited::Dialect,
    idx::{IDX_IMAGES, IDX_LABELS, is_idx},
    image_format::is_supported,
    json_lines::{self, Line},
    text_decoding::with_line_feeds,
};
use crate::contents;

/// Maximum number of bytes read for detection.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Detected content of a data file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Records of the binary version of CIFAR-10.
    Batch,
    /// Images in the format of MNIST, with gzip or without.
    IdxImages,
    /// One image.
    Picture,
    /// Delimited rows, one labelled text per row.
    Rows { dialect: Dialect, gzip: bool },
    /// JSON Lines: one JSON object per line.
    Lines { labelled: bool, gzip: bool },
    /// Running text.
    Text { gzip: bool },
    /// Anything else. The text completes the sentence "it is …".
    Other(String),
}

/// Detects the content of a file.
///
/// # Errors
/// Any I/O error.
pub(super) fn detect_content(path: &Path) -> Result<Content, DataError> {
    let read = || -> io::Result<Content> {
        let mut file = open_regular(path)?;
        let bytes = file.metadata()?.len();
        let mut head = vec![];
        file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut head)?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if head.starts_with(b"\x1f\x8b") {
            let mut text = vec![];
            let inner = MultiGzDecoder::new(open_regular(path)?)
                .take(SAMPLE_BYTES)
                .read_to_end(&mut text);
            // A truncated stream is reported when the whole file is read.
            let is_complete = matches!(inner, Ok(read) if (read as u64) < SAMPLE_BYTES);
            if let Some(content) = detect_idx(&text) {
                return Ok(content);
            }
            let stem = name.strip_suffix(".gz").unwrap_or(&name);
            return Ok(detect_text(stem, &text, is_complete, true));
        }
        if is_picture(&head) {
            return Ok(Content::Picture);
        }
        // A batch may begin with the same bytes as an IDX file, so it is detected first, by its size.
        if let Some(content) = detect_cifar(&name, &head, bytes).or_else(|| detect_idx(&head)) {
            return Ok(content);
        }
        Ok(detect_text(&name, &head, bytes <= SAMPLE_BYTES, false))
    };
    read().map_err(DataError::read(path))
}

/// Returns true for an image in a supported format.
fn is_picture(head: &[u8]) -> bool {
    image::guess_format(head).is_ok_and(is_supported)
}

/// Detects a file in the format of MNIST. Returns `None` for other files.
fn detect_idx(head: &[u8]) -> Option<Content> {
    if head.starts_with(&IDX_IMAGES) {
        return Some(Content::IdxImages);
    }
    is_idx(head).then(|| {
        let is = match head.starts_with(&IDX_LABELS) {
            true => "a file of labels in IDX format\n  hint: pass the folder, which also contains the images",
            false => "an IDX file whose values are not images of unsigned bytes, which is not supported",
        };
        Content::Other(is.to_owned())
    })
}

/// Detects the binary version of CIFAR-10, truncated batches and CIFAR-100. Returns `None` for other files.
fn detect_cifar(name: &str, head: &[u8], bytes: u64) -> Option<Content> {
    let record = CIFAR_RECORD as u64;
    // A record of CIFAR-100 has two labels.
    let is_cifar_100 = bytes.is_multiple_of(record + 1) && !bytes.is_multiple_of(record);
    let has_extension = Path::new(name).extension().is_some_and(|end| end == "bin");
    if !has_extension || bytes == 0 || contents::unsupported(head).is_some() {
        return None;
    }
    if bytes.is_multiple_of(record) {
        return Some(Content::Batch);
    }
    if has_batch_name(name) {
        return Some(Content::Other(format!(
            "a truncated CIFAR-10 batch: its {bytes} bytes are not a multiple of the record size of {record} bytes"
        )));
    }
    is_cifar_100.then(|| {
        Content::Other(format!(
            "the binary version of CIFAR-100, which is not supported: its {bytes} bytes are a multiple of {}",
            record + 1
        ))
    })
}

/// Returns true for a JSON array, or for the beginning of an array of objects.
fn is_json_array(text: &str, is_complete: bool) -> bool {
    match is_complete {
        true => serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.is_array()),
        false => text
            .trim_start()
            .trim_start_matches('[')
            .trim_start()
            .starts_with('{'),
    }
}

/// Returns true for a pickle of protocol 0, which is a text format. It begins with a memoized empty dictionary or list, or with the name of a
/// class.
fn is_text_pickle(bytes: &[u8]) -> bool {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let [first, second, third] = [lines.next(), lines.next(), lines.next()].map(Option::unwrap_or_default);
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte))
    };
    let is_memoized = |begin: &[u8]| {
        let number = first.strip_prefix(begin).unwrap_or_default();
        !number.is_empty() && number.iter().all(u8::is_ascii_digit)
    };
    let is_class =
        first.starts_with(b"c") && is_name(first) && is_name(second) && matches!(third, [b'p' | b'(', ..]);
    is_memoized(b"(dp") || is_memoized(b"(lp") || is_class
}

/// Detects the content of a text file from its first `bytes`. `is_complete` is true if `bytes` is the complete file.
fn detect_text(name: &str, bytes: &[u8], is_complete: bool, gzip: bool) -> Content {
    if let Some(is) = contents::unsupported(bytes) {
        return Content::Other(is.to_owned());
    }
    if matches!(bytes, [0x80, 2..=5, ..]) || is_text_pickle(bytes) {
        return Content::Other(
            "a Python pickle, which is not supported\n  hint: for CIFAR-10, use the binary version, `cifar-10-batches-bin`".to_owned(),
        );
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return Content::Other("a ZIP archive, which is not supported".to_owned());
    }
    let controls = bytes
        .iter()
        .filter(|byte| matches!(byte, 1..=8 | 11 | 14..=31 | 127))
        .count();
    if controls * 10 > bytes.len() {
        return Content::Other("not text: it has control characters".to_owned());
    }
    let nuls = bytes.iter().filter(|byte| **byte == 0).count();
    if nuls * 4 > bytes.len() {
        return Content::Other(
            "UTF-16 text, or not text at all\n  hint: convert UTF-16 with `iconv -f utf-16 -t utf-8`"
                .to_owned(),
        );
    }
    if nuls > 0 {
        return Content::Other("not text: it has NUL bytes".to_owned());
    }
    // Invalid UTF-8 is reported with its line when the whole file is read.
    let text = String::from_utf8_lossy(bytes);
    let text = &*with_line_feeds(text.strip_prefix('\u{feff}').unwrap_or(&text));
    // Unless the file was read completely, the last line may be incomplete.
    let text = match (is_complete, text.rfind('\n')) {
        (false, Some(end)) => &text[..end],
        _ => text,
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.clone().next() else {
        return match is_complete {
            true => Content::Other("blank: it contains only whitespace".to_owned()),
            false if json_lines::has_json_lines_extension(name) => Content::Lines {
                labelled: false,
                gzip,
            },
            false => Content::Text { gzip },
        };
    };
    if first.trim_start().starts_with('{') {
        return match Line::read(first) {
            Ok(line) => Content::Lines {
                labelled: line.has_label()
                    || lines.any(|line| Line::read(line).is_ok_and(|line| line.has_label())),
                gzip,
            },
            Err(_) if json_lines::has_json_lines_extension(name) => Content::Lines {
                labelled: false,
                gzip,
            },
            Err(problem) => Content::Other(format!("JSON, but its first line is invalid: {problem}")),
        };
    }
    if json_lines::has_json_lines_extension(name) {
        return Content::Lines {
            labelled: false,
            gzip,
        };
    }
    if first.trim_start().starts_with('[') && is_json_array(text, is_complete) {
        return Content::Other(
            "one JSON array\n  hint: convert it to JSON Lines with `jq -c '.[]'`".to_owned(),
        );
    }
    match Dialect::of(name, text) {
        Some(dialect) => Content::Rows { dialect, gzip },
        None => Content::Text { gzip },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pickles_of_every_protocol_are_not_text() {
        // Output of `pickle.dumps` of Python 3.13 for a dictionary, a list and a NumPy array.
        for pickle in [
            &b"(dp0\nVa\np1\nI1\ns."[..],
            b"(lp0\nI1\naI2\na.",
            b"cnumpy.core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n",
            b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01s.",
            b"\x80\x05\x95\x0a\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.",
        ] {
            let content = detect_text("a.txt", pickle, true, false);
            assert!(
                matches!(&content, Content::Other(is) if is.contains("pickle")),
                "{content:?}"
            );
        }
        for text in [
            "(dpa)\nis text",
            "cats and dogs\nare\nfriends",
            "call\nme\nIshmael",
        ] {
            let content = detect_text("a.txt", text.as_bytes(), true, false);
            assert_eq!(content, Content::Text { gzip: false });
        }
    }

    #[test]
    fn a_batch_that_begins_like_an_idx_file_is_a_batch() {
        let folder = tempfile::tempdir().unwrap();
        let detect = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            detect_content(&path).unwrap()
        };
        let mut bytes = vec![9; CIFAR_RECORD];
        bytes[..4].copy_from_slice(&IDX_IMAGES);
        assert_eq!(detect("data_batch_1.bin", &bytes), Content::Batch);
        assert_eq!(detect("train-images-idx3-ubyte", &bytes), Content::IdxImages);
        bytes[..4].copy_from_slice(&IDX_LABELS);
        let labels = detect("train-labels-idx1-ubyte", &bytes);
        assert!(
            matches!(&labels, Content::Other(is) if is.contains("labels")),
            "{labels:?}"
        );
        // IDX of four-byte floats.
        bytes[2] = 0x0d;
        let floats = detect("floats", &bytes);
        assert!(
            matches!(&floats, Content::Other(is) if is.contains("not supported")),
            "{floats:?}"
        );
    }
}
