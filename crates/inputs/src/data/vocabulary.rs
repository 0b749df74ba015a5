//! WordPiece vocabulary: from a file, from the words of the generator of synthetic reviews, or from the words of the training part.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use mantissa_core::{MAX_CONFIGURATION_BYTES, read_limited};
use rayon::prelude::*;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    normalizers::BertNormalizer, pre_tokenizers::bert::BertPreTokenizer,
};

use super::{DataError, Example, casing::Casing, grammar, text_decoding::utf8};
use crate::contents;

/// Tokens that every vocabulary needs.
const REQUIRED: [&str; 4] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
/// Optional special token of Hugging Face models.
const MASK: &str = "[MASK]";
/// Number of words of a learned vocabulary. It covers 97.6 % of the running words of the 25,000 IMDb training reviews.
const LEARNED_WORDS: usize = 16_384;
/// Minimum count in the training part for a character to become a piece. Excludes rare scripts and stray symbols.
const MIN_CHARACTER_COUNT: u64 = 10;

/// Tokens by id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Vocabulary {
    tokens: Vec<String>,
    /// Text normalization before the vocabulary lookup.
    pub casing: Casing,
}

impl Vocabulary {
    /// Reads `vocab.txt`, and the normalization from the configuration next to it.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let bytes = read_limited(path, MAX_CONFIGURATION_BYTES).map_err(DataError::read(path))?;
        if contents::is_lfs_pointer(&bytes) {
            return Err(DataError::Unrecognised {
                path: path.to_owned(),
                is: contents::unsupported(&bytes).unwrap_or_default().to_owned(),
            });
        }
        let vocabulary = Self::from_file(&bytes, path)?;
        Ok(Self {
            casing: Casing::for_vocabulary(path, &vocabulary.tokens)?,
            ..vocabulary
        })
    }

    /// Reads `vocab.txt`: one token per line, whose id is the line number from 0.
    pub fn from_file(bytes: &[u8], path: &Path) -> Result<Self, DataError> {
        let tokens: Vec<String> = utf8(bytes, path)?
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        let missing: Vec<_> = REQUIRED
            .into_iter()
            .filter(|required| !tokens.iter().any(|token| token == required))
            .collect();
        if !missing.is_empty() {
            return Err(DataError::Vocabulary {
                path: path.to_owned(),
                missing,
            });
        }
        Ok(Self {
            tokens,
            casing: Casing::default(),
        })
    }

    /// Builds the vocabulary of the synthetic reviews: their words and the alphabet.
    pub fn synthetic() -> Self {
        let punctuation = [",", "."].map(str::to_owned);
        Self::from_words(punctuation.into_iter().chain(grammar::words()), 'a'..='z')
    }

    /// Builds a vocabulary of the most frequent words of these examples (ties in alphabetical order) and of frequent characters. The characters
    /// keep unknown words rare.
    ///
    /// Does not use `WordPieceTrainer`, because its ids and tie-breaking depend on the order of a hash map and may differ between machines.
    pub fn learn(examples: &[Example]) -> Result<Self, DataError> {
        let count = |mut counts: HashMap<String, u64>, example: &Example| {
            for word in words(&example.text)? {
                *counts.entry(word).or_default() += 1;
            }
            Ok(counts)
        };
        let join = |mut all: HashMap<String, u64>, some: HashMap<String, u64>| {
            for (word, n) in some {
                *all.entry(word).or_default() += n;
            }
            Ok(all)
        };
        let counts = examples
            .par_iter()
            .try_fold(HashMap::new, count)
            .try_reduce(HashMap::new, join)?;

        let mut characters: BTreeMap<char, u64> = BTreeMap::new();
        for (word, n) in &counts {
            for character in word.chars() {
                *characters.entry(character).or_default() += n;
            }
        }
        let mut words: Vec<_> = counts.into_iter().collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        words.truncate(LEARNED_WORDS);
        let frequent = characters.into_iter().filter(|(_, n)| *n >= MIN_CHARACTER_COUNT);
        Ok(Self::from_words(
            words.into_iter().map(|(word, _)| word),
            frequent.map(|(character, _)| character),
        ))
    }

    /// Builds a vocabulary of special tokens, words and characters. Every character gets two tokens: one for the start of a word and one (`##`) for
    /// inside it.
    fn from_words(words: impl Iterator<Item = String>, characters: impl Iterator<Item = char>) -> Self {
        let mut tokens: Vec<String> = REQUIRED
            .into_iter()
            .chain([MASK])
            .map(str::to_owned)
            .chain(words)
            .collect();
        let known: BTreeSet<String> = tokens.iter().cloned().collect();
        let (start, inside): (Vec<_>, Vec<_>) = characters.map(|c| (c.to_string(), format!("##{c}"))).unzip();
        tokens.extend(
            start
                .into_iter()
                .chain(inside)
                .filter(|piece| !known.contains(piece)),
        );
        Self {
            tokens,
            casing: Casing::default(),
        }
    }

    /// Returns the number of ids.
    pub fn len(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Returns the text of a `vocab.txt`: one token per line. A token that occurs twice gets the id of its last line.
    pub fn text(&self) -> String {
        self.tokens.join("\n")
    }

    /// Returns a cache key with everything that determines the ids of a text.
    pub fn cache_key(&self) -> String {
        format!("{:?}\n{}", self.casing, self.text())
    }

    /// Returns the special tokens in this vocabulary.
    pub fn special_tokens(&self) -> impl Iterator<Item = &'static str> {
        REQUIRED
            .into_iter()
            .chain([MASK])
            .filter(|special| self.tokens.iter().any(|token| token == special))
    }
}

/// Returns true if a text has a line for each required token.
pub(super) fn has_required_tokens(text: &str) -> bool {
    let has = |required: &&str| text.lines().any(|line| line.trim_end() == *required);
    REQUIRED.iter().all(has)
}

/// Splits a text into words, like the tokenizer before the vocabulary lookup.
fn words(text: &str) -> Result<Vec<String>, DataError> {
    let failed = |error: tokenizers::Error| DataError::Tokenizer(error.to_string());
    let mut normalized = NormalizedString::from(text);
    BertNormalizer::default()
        .normalize(&mut normalized)
        .map_err(failed)?;
    let mut split = PreTokenizedString::from(normalized);
    BertPreTokenizer.pre_tokenize(&mut split).map_err(failed)?;
    let splits = split.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    Ok(splits.into_iter().map(|(word, ..)| word.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(texts: &[&str]) -> Vec<Example> {
        texts
            .iter()
            .map(|text| Example {
                label: 0,
                text: (*text).to_owned(),
            })
            .collect()
    }

    #[test]
    fn missing_special_tokens_are_listed_in_the_error() {
        let error = Vocabulary::from_file(b"[PAD]\nthe\n[CLS]\n", Path::new("vocab.txt"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the vocabulary `vocab.txt` lacks `[UNK]`, `[SEP]`\n  hint: "),
            "{error}"
        );
    }

    #[test]
    fn ids_are_line_numbers_from_zero_with_any_line_ends() {
        let vocabulary =
            Vocabulary::from_file(b"[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\nthe\r\n", Path::new("v")).unwrap();
        assert_eq!(vocabulary.len(), 5);
        assert_eq!(vocabulary.text(), "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe");
        assert_eq!(vocabulary.special_tokens().count(), 4);
    }

    #[test]
    fn learned_vocabulary_is_sorted_by_frequency_then_name() {
        let learned = Vocabulary::learn(&examples(&["The film, the FILM", "a film", "café"])).unwrap();
        let words = ["film", "the", ",", "a", "cafe"];
        assert_eq!(
            learned.tokens,
            REQUIRED
                .into_iter()
                .chain([MASK])
                .chain(words)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_learned_vocabulary_has_pieces_of_frequent_characters() {
        let learned = Vocabulary::learn(&examples(&["ab ".repeat(10).as_str(), "c"])).unwrap();
        assert_eq!(learned.tokens[5..], ["ab", "c", "a", "b", "##a", "##b"]);
    }

    #[test]
    fn the_synthetic_vocabulary_is_small_and_without_duplicates() {
        let tokens = Vocabulary::synthetic().tokens;
        assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), tokens.len());
        assert!((400..=800).contains(&tokens.len()), "{}", tokens.len());
    }
}
