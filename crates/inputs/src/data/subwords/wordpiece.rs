//! WordPiece tokenizer with a BERT `vocab.txt`: one token per line.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{PoisonError, RwLock},
};

use super::{
    super::{
        vocabulary::{self, Vocabulary},
        word_pieces::{WordPieces, word_pieces},
    },
    parts,
    tokenizer_trait::Subwords,
};

/// Maximum number of bytes of a word encoded in one call. The library needs several hundred times this memory.
const MAX_WORD_BYTES: usize = 64 << 10;
/// Characters at which a text is split into words. Do not split at other whitespace, because the library removes some of it as control
/// characters and so joins the words around it.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Maximum number of words in the cache. It covers nearly all words of a text.
const MAX_CACHED_WORDS: usize = 1 << 17;
/// Maximum length of a cached word, in bytes.
const MAX_CACHED_WORD_BYTES: usize = 32;

/// BERT tokenizer with any vocabulary.
pub(super) struct Bert {
    inner: WordPieces,
    vocabulary: u32,
    /// Cached ids of words.
    cache: RwLock<HashMap<Box<str>, Box<[u32]>>>,
}

impl Bert {
    /// Returns true if a file is a vocabulary: UTF-8 text with a line for each required special token.
    pub fn is_vocabulary(bytes: &[u8]) -> bool {
        str::from_utf8(bytes).is_ok_and(vocabulary::has_required_tokens)
    }

    /// Creates a tokenizer with this vocabulary.
    pub fn new(vocabulary: &Vocabulary) -> Result<Self, String> {
        Ok(Self {
            inner: word_pieces(vocabulary).map_err(|error| error.to_string())?,
            vocabulary: vocabulary.len(),
            cache: RwLock::default(),
        })
    }

    /// Adds the ids of words to the cache until it is full.
    fn cache_words(&self, words: HashMap<&str, Range<usize>>, ids: &[u32]) {
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let short = words
            .into_iter()
            .filter(|(word, _)| word.len() <= MAX_CACHED_WORD_BYTES);
        for (word, range) in short {
            if cache.len() < MAX_CACHED_WORDS && !cache.contains_key(word) {
                cache.insert(word.into(), ids[range].into());
            }
        }
    }
}

impl Subwords for Bert {
    fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    fn beginning(&self) -> Option<u32> {
        self.inner.token_to_id("[CLS]")
    }

    fn id_of(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    fn end(&self) -> Option<u32> {
        self.inner.token_to_id("[SEP]")
    }

    fn mask(&self) -> Option<u32> {
        self.inner.token_to_id("[MASK]")
    }

    /// Encodes word by word with the cache, because most words are repeated and the library is slow.
    fn encode(&self, part: &str, begins: bool) -> Result<Vec<u32>, String> {
        let mut ids: Vec<u32> = self.beginning().filter(|_| begins).into_iter().collect();
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let mut uncached: HashMap<&str, Range<usize>> = HashMap::new();
        for word in part.split(SPACE).filter(|word| !word.is_empty()) {
            if let Some(found) = cache.get(word) {
                ids.extend_from_slice(found);
            } else if let Some(range) = uncached.get(word) {
                ids.extend_from_within(range.clone());
            } else {
                let begin = ids.len();
                for piece in parts(word, MAX_WORD_BYTES) {
                    let encoding = self.inner.encode_fast(piece, false);
                    ids.extend(encoding.map_err(|error| error.to_string())?.get_ids());
                }
                uncached.insert(word, begin..ids.len());
            }
        }
        drop(cache);
        if !uncached.is_empty() {
            self.cache_words(uncached, &ids);
        }
        Ok(ids)
    }

    fn decode(&self, ids: &[u32]) -> String {
        // Decoding fails for ids that are not in the vocabulary. Return an empty text then.
        self.inner.decode(ids, true).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(file: &str) -> Bert {
        Bert::new(&Vocabulary::from_file(file.as_bytes(), Path::new("vocab.txt")).unwrap()).unwrap()
    }

    const FILE: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfilm\n##s\n";

    #[test]
    fn encoding_adds_cls_and_splits_words_into_pieces() {
        assert!(Bert::is_vocabulary(FILE.as_bytes()));
        let bert = read(FILE);
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
    fn a_long_text_is_encoded_like_its_words() {
        let bert = read(FILE);
        let text = "the films ".repeat(MAX_WORD_BYTES / 4);
        let ids = bert.encode(&text, false).unwrap();
        assert_eq!(ids, [5, 6, 7].repeat(MAX_WORD_BYTES / 4));
    }

    #[test]
    fn encoding_word_by_word_matches_encoding_the_whole_text() {
        let file = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfilm\n##s\na\n##b\ne\n.\n'\n中\n";
        let bert = read(file);
        // Control characters, of which some are whitespace in Rust; accents before and after a space; symbols that are words; special tokens.
        let atoms = [
            "the",
            "film",
            "films",
            "FILMS.",
            "a",
            "ab",
            "é",
            "e\u{301}",
            "\u{301}",
            "a\u{b}b",
            "a\u{85}b",
            "\u{c}",
            "\u{0}",
            "a\u{a0}the",
            "\u{2028}",
            "\u{3000}",
            "\u{200b}",
            "'",
            ".",
            "中ab中",
            "[MASK]",
            "[mask]",
            "a[MASK]b",
            "##s",
            " ",
            "\t",
            "\n",
            "\r\n",
            "  ",
        ];
        let mut state = 7_u64;
        let mut next = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % limit
        };
        for _ in 0..2_000 {
            let text: String = (0..next(12)).map(|_| atoms[next(atoms.len())]).collect();
            let whole = bert.inner.encode_fast(text.as_str(), false).unwrap();
            assert_eq!(bert.encode(&text, false).unwrap(), whole.get_ids(), "{text:?}");
        }
    }

    #[test]
    fn mask_token_is_optional_and_other_files_are_rejected() {
        let without = FILE.replace("[MASK]\n", "");
        assert_eq!(read(&without).mask(), None);
        for other in [&b"[PAD]\n[UNK]\n[CLS]\n"[..], b"{\"[PAD]\": 0}", b"\xff[PAD]"] {
            assert!(!Bert::is_vocabulary(other));
        }
    }
}
