//! Text normalization of a SentencePiece model, before a text is split into pieces.

use super::trie::Trie;

/// Replacement of a space in pieces and normalized text.
pub(super) const SPACE: &str = "\u{2581}";

/// Normalization rules for characters and spaces.
pub(super) struct Normalizer {
    /// Replacements of character sequences.
    pub char_map: Option<CharMap>,
    /// Insert a space before a text.
    pub dummy_prefix: bool,
    /// Insert the space after the text instead of before it.
    pub suffix: bool,
    /// Trim spaces around a text, and collapse repeated spaces.
    pub remove_extra_spaces: bool,
    /// Replace spaces by [`SPACE`].
    pub escape_spaces: bool,
}

impl Normalizer {
    /// Normalizes a text. User-defined pieces are not changed. `begins` is false if the text continues a previous part.
    pub fn normalize(&self, text: &str, begins: bool, user_defined: &Trie) -> Result<String, String> {
        /// Maximum ratio of output to input length. Published rules stay below it for every character.
        const MAX_EXPANSION: usize = 64;
        let limit = MAX_EXPANSION * (text.len() + 1);
        let space = if self.escape_spaces { SPACE } else { " " };
        let mut out = String::with_capacity(text.len() + text.len() / 2);
        let mut rest = text;
        let mut after_space = self.remove_extra_spaces && begins;
        if after_space {
            while let Some((" ", bytes)) = self.replace_first(rest, user_defined) {
                rest = &rest[bytes..];
            }
        }
        if rest.is_empty() {
            return Ok(out);
        }
        if begins && self.dummy_prefix && !self.suffix {
            out.push_str(space);
        }
        while let Some((mut replacement, bytes)) = self.replace_first(rest, user_defined) {
            rest = &rest[bytes..];
            if after_space {
                replacement = replacement.trim_start_matches(' ');
            }
            if !replacement.is_empty() {
                let parts = replacement.split(' ').enumerate();
                parts.for_each(|(index, part)| {
                    if index > 0 {
                        out.push_str(space);
                    }
                    out.push_str(part);
                });
                after_space = replacement.ends_with(' ');
            }
            after_space &= self.remove_extra_spaces;
            if out.len() > limit {
                return Err(format!(
                    "the normalization rules make a text more than {MAX_EXPANSION} times as long"
                ));
            }
        }
        if self.remove_extra_spaces {
            out.truncate(out.trim_end_matches(space).len());
        }
        if self.dummy_prefix && self.suffix {
            out.push_str(space);
        }
        Ok(out)
    }

    /// Returns the replacement for the first characters of a text, and the number of bytes that it replaces. Returns `None` for an empty text.
    fn replace_first<'a>(&'a self, text: &'a str, user_defined: &Trie) -> Option<(&'a str, usize)> {
        let character = text.chars().next()?.len_utf8();
        if let Some((bytes, _)) = user_defined.prefixes(text).last() {
            return Some((&text[..bytes], bytes));
        }
        let replaced = self.char_map.as_ref().and_then(|rules| rules.first(text));
        Some(replaced.unwrap_or((&text[..character], character)))
    }
}

/// Character replacements (`precompiled_charsmap`): a double-array trie in the format of Darts-clone, whose values are offsets into the
/// replacement texts.
pub(super) struct CharMap {
    units: Vec<u32>,
    texts: String,
}

impl CharMap {
    /// Reads the length of the trie in bytes, the trie, and the replacement texts, each terminated by a zero byte.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let damaged = || "the normalization rules are damaged".to_owned();
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (units, texts) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let (units, odd) = units.as_chunks::<4>();
        let texts = str::from_utf8(texts).map_err(|_| damaged())?;
        if units.is_empty() || !odd.is_empty() || !texts.ends_with('\0') {
            return Err(damaged());
        }
        Ok(Self {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
            texts: texts.to_owned(),
        })
    }

    /// Returns the replacement for the longest prefix of a text that has a rule, and the length of the prefix in bytes.
    fn first(&self, text: &str) -> Option<(&str, usize)> {
        let mut found = None;
        let mut unit = *self.units.first()?;
        let mut node = offset(unit);
        for (index, byte) in text.bytes().enumerate() {
            node ^= usize::from(byte);
            let Some(&next) = self.units.get(node) else { break };
            unit = next;
            if label(unit) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if has_leaf(unit) {
                found = self.units.get(node).map(|&leaf| (value(leaf), index + 1));
            }
        }
        let (text_offset, bytes) = found?;
        // A damaged trie may end inside a character or point outside the texts. Treat this as a missing rule.
        let replacement = self.texts.get(text_offset..)?.split('\0').next()?;
        text.is_char_boundary(bytes).then_some((replacement, bytes))
    }
}

/// Returns the byte that leads to a unit. A leaf has bit 31 set, so its label differs from every byte.
fn label(unit: u32) -> u32 {
    unit & ((1 << 31) | 0xff)
}

fn has_leaf(unit: u32) -> bool {
    (unit >> 8) & 1 == 1
}

/// Returns the value of a leaf.
fn value(unit: u32) -> usize {
    (unit & !(1 << 31)) as usize
}

/// Returns the offset from a unit to its successors. The index of a successor is the index of the unit XOR the offset XOR the byte.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Normalizer {
        Normalizer {
            char_map: None,
            dummy_prefix: true,
            suffix: false,
            remove_extra_spaces: false,
            escape_spaces: true,
        }
    }

    fn normalized(normalizer: &Normalizer, text: &str, begins: bool) -> String {
        normalizer.normalize(text, begins, &Trie::default()).unwrap()
    }

    #[test]
    fn a_space_is_inserted_only_before_the_first_part() {
        assert_eq!(normalized(&plain(), "a  b ", true), "▁a▁▁b▁");
        assert_eq!(normalized(&plain(), " a  b ", true), "▁▁a▁▁b▁");
        assert_eq!(normalized(&plain(), " a", false), "▁a");
        assert_eq!(normalized(&plain(), "", true), "");
    }

    #[test]
    fn extra_spaces_are_removed() {
        let fewer = Normalizer {
            remove_extra_spaces: true,
            ..plain()
        };
        assert_eq!(normalized(&fewer, "  a   b  ", true), "▁a▁b");
        assert_eq!(normalized(&fewer, "   ", true), "");
        assert_eq!(normalized(&fewer, " a  b ", false), "▁a▁b");
        let suffixed = Normalizer {
            suffix: true,
            ..fewer
        };
        assert_eq!(normalized(&suffixed, " a b ", true), "a▁b▁");
    }

    #[test]
    fn damaged_rules_are_rejected_or_ignored() {
        let read = |bytes: &[u8]| CharMap::read(bytes);
        assert!(read(&[]).is_err());
        assert!(read(&[4, 0, 0, 0]).is_err());
        assert!(read(&[3, 0, 0, 0, 1, 2, 3, 0]).is_err());
        assert!(read(&[0, 0, 0, 0, 0]).is_err());
        assert!(read(&[4, 0, 0, 0, 1, 2, 3, 4, 0xff, 0]).is_err());
        assert!(read(&[4, 0, 0, 0, 1, 2, 3, 4, b'a']).is_err());
        let mut state = 1_u32;
        for _ in 0..200 {
            let mut bytes = vec![64, 0, 0, 0];
            bytes.extend((0..64).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            }));
            bytes.extend("é\0b\0".bytes());
            let rules = read(&bytes).unwrap();
            for text in ["abc", "ééé", "\u{10ffff}"] {
                let first = rules.first(text);
                assert!(first.is_none_or(|(_, bytes)| text.is_char_boundary(bytes) && bytes > 0));
            }
        }
    }
}
