//! Tokenizers of language models, in the published file formats.
//!
//! The library `tokenizers` encodes with `tokenizer.json` and `vocab.txt`. Our own code encodes with SentencePiece models and `tok*.bin`, because
//! the ids of `tokenizers` differ from those of SentencePiece and of `run.c` in llama2.c. The line counts exclude tests.
//!
//! | file | lines | reason for not using `tokenizers` |
//! |---|--:|---|
//! | `protobuf.rs` | 118 | `tokenizers` does not read SentencePiece models. |
//! | `sentencepiece.rs` | 408 | `Unigram` rounds differently, is slower, and can overflow the stack. `ByteFallback` decodes differently. |
//! | `trie.rs` | 46 | The trie of `tokenizers` is private, and is freed recursively. |
//! | `merging.rs` | 115 | `BPE` cannot express equal scores, or merges of characters that are not pieces. |
//! | `normalizer.rs` | 152 | `Precompiled` applies other rules, is slower, and panics on damaged rules. |
//! | `llama2c.rs` | 144 | `tokenizers` does not read `tok*.bin`. `BPE` cannot express equal scores. |
//! | `wordpiece.rs` | 116 | Uses `tokenizers`, and adds a cache of words, which makes encoding 2.5 to 4 times as fast. |
//! | `huggingface.rs` | 131 | Uses `tokenizers`, adds the special tokens around a text, and converts panics to errors. |
//! | `configuration.rs` | 228 | `tokenizers` does not check the files next to a tokenizer. |
//!
//! The following was measured with `tokenizers` 0.22.2 and models of 8,000 pieces, on 28,000 cases (20,000 parts of English reviews, 8,000 random
//! strings):
//!
//! - `Unigram` adds scores in f64, and SentencePiece keeps sums in f32. The ids differ from those of SentencePiece 0.2.1 in 1,020 cases, and from
//!   those of 0.2.3 in 103. For models without user-defined pieces, our ids equal those of 0.2.1 in every case; 0.2.3
//!   rounds once more, which changes 927 cases. `Unigram` needs twice the time of our code.
//! - `Unigram` frees its trie recursively: a piece of 50,000 characters overflows a stack of 2 MiB, and the process aborts.
//! - `BPE` gives every merge a distinct rank, but SentencePiece and `run.c` merge the leftmost of the pairs with equal scores. Pieces that
//!   are added to a published model can have equal scores. With the score 0 for 11,000 of the 32,000 pieces of LLaMA 2, the ids of `BPE`
//!   differ from those of SentencePiece in 168 cases, and our ids in none. With distinct scores and a piece for every character, no case
//!   differs, and `BPE` is up to 1.5 times as fast.
//! - `BPE` needs a list of every division of a piece into two strings. For a file of 2 MB with pieces of 1 to 2,000 characters, the list
//!   takes 2.6 GB.
//! - `Precompiled` selects the shortest rule that matches, and SentencePiece the longest. 960 of 20,000 random strings differ. `Precompiled`
//!   needs six times the time, and cannot skip user-defined pieces.
//! - `ByteFallback` replaces every byte in a sequence of byte tokens if one byte is invalid. SentencePiece keeps the valid characters.

mod configuration;
mod huggingface;
mod llama2c;
mod merging;
mod normalizer;
mod protobuf;
mod sentencepiece;
mod tokenizer_trait;
mod trie;
mod wordpiece;

use std::{fs, iter, path::Path};

use huggingface::HuggingFace;
pub(super) use huggingface::normal_form;
use llama2c::Llama2c;
#[cfg(test)]
pub(super) use llama2c::tests::file as llama2c_file;
use sentencepiece::SentencePiece;
use tokenizer_trait::Subwords;
use wordpiece::Bert;

use super::{DataError, vocabulary::Vocabulary};
use mantissa_core::{MAX_CONFIGURATION_BYTES, read_limited};

use crate::contents;

/// Maximum number of bytes encoded in one call. Encodings need many times the memory of their texts.
pub(super) const MAX_ENCODE_BYTES: usize = 2 << 20;
/// Maximum size of a tokenizer file, in bytes. The largest published ones have about 40 MB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Converts text to token ids of a language model and back.
pub struct TextTokenizer {
    subwords: Box<dyn Subwords>,
    hash: blake3::Hash,
}

impl TextTokenizer {
    /// Reads a Hugging Face `tokenizer.json`, a SentencePiece model, a llama2.c `tok*.bin` or a BERT `vocab.txt`. The content determines the
    /// format.
    ///
    /// # Errors
    /// A file in another format, or a damaged file.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let bad = |reason: String| DataError::BadTokenizer {
            path: path.to_owned(),
            reason,
        };
        let length = fs::metadata(path).map_err(DataError::read(path))?.len();
        if length > MAX_FILE_BYTES {
            return Err(bad(format!(
                "it has {length} bytes; the maximum is {MAX_FILE_BYTES} bytes"
            )));
        }
        let bytes = read_limited(path, MAX_CONFIGURATION_BYTES).map_err(DataError::read(path))?;
        if contents::is_lfs_pointer(&bytes) {
            let is = contents::unsupported(&bytes).unwrap_or_default();
            return Err(bad(format!("it is {is}")));
        }
        let text = without_bom(&bytes);
        if Bert::is_vocabulary(text) {
            let vocabulary = Vocabulary::open(path)?;
            return Ok(Self {
                subwords: Box::new(Bert::new(&vocabulary).map_err(bad)?),
                hash: blake3::hash(vocabulary.cache_key().as_bytes()),
            });
        }
        let subwords = read(&bytes).map_err(bad)?;
        let tokenizer_json = serde_json::from_slice(text).ok();
        configuration::check(path, tokenizer_json.as_ref(), &*subwords)?;
        Ok(Self {
            subwords,
            hash: blake3::hash(&bytes),
        })
    }

    /// Creates the tokenizer of the synthetic texts. Its vocabulary consists of their words.
    pub(super) fn synthetic() -> Result<Self, DataError> {
        let vocabulary = Vocabulary::synthetic();
        Ok(Self {
            subwords: Box::new(Bert::new(&vocabulary).map_err(DataError::Tokenizer)?),
            hash: blake3::hash(vocabulary.text().as_bytes()),
        })
    }

    /// Returns one more than the highest id: the minimum number of rows of a model's embedding table.
    pub fn vocabulary(&self) -> u32 {
        self.subwords.vocabulary()
    }

    /// Returns the beginning-of-text token. `None` if the tokenizer does not use one (GPT-2 and BLOOM). The first token of a text is then not
    /// predicted.
    pub fn beginning(&self) -> Option<u32> {
        self.subwords.beginning()
    }

    /// Returns the end-of-text token. If a `tokenizer.json` does not append an end token to a text, the token is found by its common names.
    pub fn end(&self) -> Option<u32> {
        self.subwords.end()
    }

    /// Returns the mask token. Only tokenizers of models such as BERT have one.
    pub fn mask(&self) -> Option<u32> {
        self.subwords.mask()
    }

    /// Returns a hash of the file. For a `vocab.txt`, it also covers the text normalization.
    pub fn hash(&self) -> blake3::Hash {
        self.hash
    }

    /// Encodes a text, with the beginning token and without an end token.
    ///
    /// A text of more than 2 MiB is encoded in parts that end before a space if possible. A tokenizer with tokens that span words could encode the
    /// whole text differently.
    ///
    /// # Errors
    /// A text that the tokenizer rejects.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let mut ids = vec![];
        for (index, part) in parts(text, MAX_ENCODE_BYTES).enumerate() {
            ids.extend(self.encode_part(part, index == 0)?);
        }
        Ok(ids)
    }

    /// Encodes a part of a text. `begins` is true for the first part.
    pub(super) fn encode_part(&self, part: &str, begins: bool) -> Result<Vec<u32>, DataError> {
        self.subwords.encode(part, begins).map_err(DataError::Tokenizer)
    }

    /// Decodes ids. Bytes that are not UTF-8 become replacement characters, and special tokens are removed.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.subwords.decode(ids)
    }
}

/// Removes a byte order mark.
fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

/// Reads a tokenizer of any format except `vocab.txt` from its bytes.
fn read(bytes: &[u8]) -> Result<Box<dyn Subwords>, String> {
    let text = without_bom(bytes);
    if text.trim_ascii_start().first() == Some(&b'{') {
        return Ok(Box::new(HuggingFace::read(text)?));
    }
    // A llama2.c file begins with the length of the longest piece, in four bytes. The second byte of a SentencePiece file is the length of the
    // first piece, which is not 0.
    if bytes.get(1..4).is_some_and(|bytes| bytes == [0; 3]) {
        return Ok(Box::new(Llama2c::read(bytes)?));
    }
    Ok(Box::new(SentencePiece::read(bytes)?))
}

/// Splits a text into parts of at most `limit` bytes, which must be at least 4, the maximum length of a character. An empty text is one part.
pub(super) fn parts(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        if text.len() <= limit {
            return rest.take();
        }
        let (part, after) = text.split_at(end_of_part(text, limit));
        rest = Some(after);
        Some(part)
    })
}

/// Returns the end of the first part of a text longer than `limit`: before the last space that follows a word, else before the last whitespace,
/// else at a character boundary.
pub(super) fn end_of_part(text: &str, limit: usize) -> usize {
    let fits = (1..=limit).rev().find(|&at| text.is_char_boundary(at));
    let head = &text[..fits.unwrap_or(text.len())];
    let after_word = |&(at, _): &(usize, &str)| at > 0 && !head[..at].ends_with(char::is_whitespace);
    let space = head.rmatch_indices(' ').find(after_word).map(|(at, _)| at);
    let other = || head.rfind(char::is_whitespace).filter(|&at| at > 0);
    space.or_else(other).unwrap_or(head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_split_before_spaces_that_follow_a_word() {
        let parts = |text, limit| parts(text, limit).collect::<Vec<_>>();
        assert_eq!(parts("one two three", 8), ["one two", " three"]);
        assert_eq!(parts("one   two\nthree", 8), ["one", "   two", "\nthree"]);
        assert_eq!(parts("one", 8), ["one"]);
        assert_eq!(parts("", 8), [""]);
        assert_eq!(parts("éééééé", 5), ["éé", "éé", "éé"]);
        assert_eq!(parts("          a", 4).concat(), "          a");
        let text = "the quick brown fox jumps\nover the lazy dog ".repeat(20);
        for limit in 4..60 {
            let parts = parts(&text, limit);
            assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= limit));
            assert_eq!(parts.concat(), text);
        }
    }

    #[test]
    fn files_that_are_not_tokenizers_are_rejected_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.model");
        let error = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let error = TextTokenizer::open(&path)
                .err()
                .expect("the file must be rejected")
                .to_string();
            assert!(
                error.contains("my.model`: ") && error.contains("\n  hint: "),
                "{error}"
            );
            error
        };
        error(b"");
        error(b"{");
        error(b"{\"model\": 3}");
        error(b"IQ== 0\nIg== 1\n");
        error(&[0; 3]);
        error(&[7, 0, 0, 0]);
        error(&[10, 0, 0, 0, 1]);
        let absent = TextTokenizer::open(&folder.path().join("absent"));
        assert!(absent.err().unwrap().to_string().starts_with("cannot read `"));
        let large = fs::File::create(&path).unwrap();
        large.set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = TextTokenizer::open(&path).err().unwrap().to_string();
        assert!(error.contains("the maximum is 268435456 bytes"), "{error}");
    }

    #[test]
    fn hash_is_the_blake3_hash_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tok.bin");
        fs::write(&path, llama2c::tests::file(&[])).unwrap();
        let hash = TextTokenizer::open(&path).unwrap().hash();
        assert_eq!(hash, blake3::hash(&fs::read(&path).unwrap()));
    }
}
