//! `vocab.txt` of BERT: WordPiece, a token a line.

use std::path::Path;

use super::{
    super::{
        tokenizer::{WordPieces, word_pieces},
        vocabulary::{self, Vocabulary},
    },
    Subwords, parts,
};

/// Bytes that are encoded at a time: the library needs some hundred times as many. Words do not reach across spaces.
const PIECE: usize = 64 << 10;

/// The tokenizer of bert-base-uncased with some vocabulary.
pub(super) struct Bert {
    inner: WordPieces,
    vocabulary: u32,
}

impl Bert {
    /// Whether a file is a vocabulary: it has a line for each of the special tokens that every one has.
    pub fn is_one(bytes: &[u8]) -> bool {
        str::from_utf8(bytes).is_ok_and(vocabulary::has_special)
    }

    /// Reads a `vocab.txt`.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let vocabulary = Vocabulary::from_file(bytes, Path::new("vocab.txt"));
        Self::of(&vocabulary.map_err(|error| error.to_string())?)
    }

    /// The tokenizer of a vocabulary.
    pub fn of(vocabulary: &Vocabulary) -> Result<Self, String> {
        Ok(Self {
            inner: word_pieces(vocabulary).map_err(|error| error.to_string())?,
            vocabulary: vocabulary.len(),
        })
    }
}

impl Subwords for Bert {
    fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    fn beginning(&self) -> Option<u32> {
        self.inner.token_to_id("[CLS]")
    }

    fn end(&self) -> Option<u32> {
        self.inner.token_to_id("[SEP]")
    }

    fn mask(&self) -> Option<u32> {
        self.inner.token_to_id("[MASK]")
    }

    fn encode(&self, part: &str, begins: bool) -> Result<Vec<u32>, String> {
        let mut ids: Vec<u32> = self.beginning().filter(|_| begins).into_iter().collect();
        for piece in parts(part, PIECE) {
            let encoding = self.inner.encode_fast(piece, false);
            ids.extend(encoding.map_err(|error| error.to_string())?.get_ids());
        }
        Ok(ids)
    }

    fn decode(&self, ids: &[u32]) -> String {
        // It fails on ids that the vocabulary lacks, which then have no text.
        self.inner.decode(ids, true).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfilm\n##s\n";

    #[test]
    fn a_text_begins_with_its_token_and_words_are_cut_into_pieces() {
        assert!(Bert::is_one(FILE.as_bytes()));
        let bert = Bert::read(FILE.as_bytes()).unwrap();
        assert_eq!(bert.vocabulary(), 8);
        assert_eq!(
            (bert.beginning(), bert.end(), bert.mask()),
            (Some(2), Some(3), Some(4))
        );
        assert_eq!(bert.encode("The films é", true).unwrap(), [2, 5, 6, 7, 1]);
        assert_eq!(bert.encode("The films", false).unwrap(), [5, 6, 7]);
        assert_eq!(bert.decode(&[2, 5, 6, 7, 3]), "the films");
        assert_eq!(bert.decode(&[99]), "");
    }

    #[test]
    fn a_long_text_has_the_ids_of_its_words() {
        let bert = Bert::read(FILE.as_bytes()).unwrap();
        let text = "the films ".repeat(PIECE / 4);
        let ids = bert.encode(&text, false).unwrap();
        assert_eq!(ids, [5, 6, 7].repeat(PIECE / 4));
    }

    #[test]
    fn a_vocabulary_may_lack_a_mask_and_other_files_are_none() {
        let without = FILE.replace("[MASK]\n", "");
        assert_eq!(Bert::read(without.as_bytes()).unwrap().mask(), None);
        for other in [&b"[PAD]\n[UNK]\n[CLS]\n"[..], b"{\"[PAD]\": 0}", b"\xff[PAD]"] {
            assert!(!Bert::is_one(other));
        }
    }
}
