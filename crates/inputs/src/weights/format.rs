//! Detects the format of a checkpoint file from its content.

use std::path::Path;

use super::llama2c;
use crate::contents;

/// Format of a checkpoint file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Index of a sharded checkpoint, in JSON.
    Index,
    /// <https://huggingface.co/docs/safetensors>.
    Safetensors,
    /// PyTorch (`torch.save`): a zip archive since PyTorch 1.6, a pickle before.
    PyTorch,
    /// llama2.c (`export.py`).
    Llama2c,
}

impl Format {
    /// Detects the format of a file.
    ///
    /// # Errors
    /// An I/O error, or a message about an unsupported format.
    pub(super) fn detect(path: &Path) -> Result<Self, String> {
        let head = contents::read_head(path).map_err(|error| error.to_string())?;
        Self::from_first_bytes(&head).ok_or_else(|| match contents::unsupported(&head) {
            Some(is) => format!("it is {is}"),
            None => {
                "it is not a checkpoint in a supported format: safetensors, PyTorch or llama2.c".to_owned()
            }
        })
    }

    /// Detects the format from the first bytes of a file.
    fn from_first_bytes(head: &[u8]) -> Option<Self> {
        /// Maximum header length of safetensors, in bytes.
        const MAX_HEADER_BYTES: u64 = 100_000_000;
        let first: Option<[u8; 8]> = head.first_chunk().copied();
        let header_bytes = first.map(u64::from_le_bytes);
        match head {
            // Length of the header, then the header as JSON.
            [_, _, _, _, _, _, _, _, b'{', ..]
                if header_bytes.is_some_and(|length| length <= MAX_HEADER_BYTES) =>
            {
                Some(Self::Safetensors)
            }
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Some(Self::PyTorch),
            // PROTO opcode, protocol version, next opcode. A llama2.c checkpoint of width 128 also begins with the PROTO opcode, but then
            // the third byte is 0, which is not an opcode.
            [0x80, 2..=5, operation, ..] if *operation != 0 => Some(Self::PyTorch),
            [b'{' | b' ' | b'\n' | b'\r' | b'\t', ..] if head.trim_ascii_start().starts_with(b"{") => {
                Some(Self::Index)
            }
            _ => llama2c::is_llama2c(head).then_some(Self::Llama2c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_from_the_first_bytes() {
        let header = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        assert_eq!(
            Format::from_first_bytes(&header("{\"a\":1}")),
            Some(Format::Safetensors)
        );
        assert_eq!(Format::from_first_bytes(b"PK\x03\x04"), Some(Format::PyTorch));
        // `torch.save` before 1.6, and `pickle.dump`.
        assert_eq!(
            Format::from_first_bytes(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"),
            Some(Format::PyTorch)
        );
        assert_eq!(
            Format::from_first_bytes(b"\x80\x04\x95\x10\0\0\0\0\0\0\0"),
            Some(Format::PyTorch)
        );
        assert_eq!(
            Format::from_first_bytes(b"\n {\"weight_map\": {}}"),
            Some(Format::Index)
        );
        assert_eq!(
            Format::from_first_bytes(b"label\ttext\n0\tbad\n and much more of it"),
            None
        );
        assert_eq!(Format::from_first_bytes(b""), None);
        // Widths of llama2.c; the low byte of 128, 384, 640 and 896 is the PROTO opcode of pickle.
        for width in (2..4096).step_by(2) {
            let numbers: [i32; 7] = [width, 172, 5, 1, 1, 512, 512];
            let head: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert_eq!(
                Format::from_first_bytes(&head),
                Some(Format::Llama2c),
                "width {width}"
            );
        }
    }
}
