//! File type detection from the first bytes.
//!
//! File names are unreliable: some checkpoints named `pytorch_model.bin` are safetensors files, and a repository cloned
//! without Git LFS contains small pointer files under the original names.

use std::{
    io::{self, Read},
    path::Path,
};

use mantissa_core::{MAX_CONFIGURATION_BYTES, open_regular, read_limited};
use serde::de::DeserializeOwned;

/// Maximum number of bytes read for detection.
const HEAD_BYTES: usize = 512;

/// Reads the first bytes of a file.
///
/// # Errors
/// Any I/O error.
pub(crate) fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = vec![];
    open_regular(path)?
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the maximum unpacked size of a gzip file of `packed` bytes. Text rarely expands by more than a factor of ten.
pub(crate) fn max_unpacked_size(packed: u64) -> u64 {
    /// Maximum ratio of unpacked to packed size.
    const MAX_RATIO: u64 = 30;
    /// Allowance in addition to the ratio, in bytes, for small files.
    const ALLOWANCE: u64 = 16 << 20;
    ALLOWANCE.saturating_add(packed.saturating_mul(MAX_RATIO))
}

/// Reads a JSON file, with or without a byte order mark.
///
/// # Errors
/// An I/O error, a file of another type, or malformed JSON. The message does not contain the path.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let bytes = read_limited(path, MAX_CONFIGURATION_BYTES).map_err(|error| error.to_string())?;
    if let Some(is) = unsupported(&bytes) {
        return Err(format!("it is {is}"));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// Describes a file of a known but unsupported type, or an empty file. The description completes the sentence "it is …".
pub(crate) fn unsupported(head: &[u8]) -> Option<&'static str> {
    const SIGNATURES: [(&[u8], &str); 12] = [
        (
            b"version https://git-lfs",
            "a Git LFS pointer, not the file itself\n  hint: run `git lfs pull` in its repository to download the file",
        ),
        (
            b"GGUF",
            "a GGUF file, which is not supported\n  hint: use the safetensors files from which it was converted",
        ),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file, which is not supported"),
        (b"%PDF-", "a PDF document"),
        (b"SQLite format 3\0", "an SQLite database, which is not supported"),
        (b"\x93NUMPY", "a NumPy array, which is not supported"),
        (b"PAR1", "a Parquet file, which is not supported"),
        (b"ARROW1", "an Arrow file, which is not supported"),
        (b"\x1f\x8b", "compressed with gzip"),
        (b"BZh", "compressed with bzip2"),
        (b"\xfd7zXZ\0", "compressed with xz"),
        (b"\x28\xb5\x2f\xfd", "compressed with Zstandard"),
    ];
    let matches = |(magic, _): &&(&[u8], &str)| head.starts_with(magic);
    if let Some((_, is)) = SIGNATURES.iter().find(matches) {
        return Some(is);
    }
    let lower: Vec<u8> = head.iter().take(64).map(u8::to_ascii_lowercase).collect();
    let lower = lower.trim_ascii_start();
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        return Some("an HTML page, perhaps from a download that requires a login");
    }
    match head {
        [] => Some("empty"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("UTF-16 text\n  hint: convert it to UTF-8 with `iconv -f utf-16 -t utf-8`")
        }
        _ => None,
    }
}

/// Returns true for a Git LFS pointer.
pub(crate) fn is_lfs_pointer(head: &[u8]) -> bool {
    head.starts_with(b"version https://git-lfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_file_types_are_detected() {
        let is = |head: &[u8]| unsupported(head).unwrap_or("unknown");
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 1\n";
        assert!(is(pointer).contains("Git LFS") && is_lfs_pointer(pointer));
        assert!(is(b"GGUF\x03\0\0\0").contains("GGUF"));
        assert!(is(b"\x1f\x8b\x08").contains("gzip"));
        assert!(is(b"\xff\xfeh\0i\0").contains("UTF-16"));
        assert_eq!(is(b""), "empty");
        assert_eq!(is(b"label\ttext\n"), "unknown");
    }
}
