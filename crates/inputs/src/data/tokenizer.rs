//! WordPiece tokenization of BERT: text normalization of the vocabulary (by default lowercase without accents), `[CLS] … [SEP]`, truncated to the
//! sequence length.

use rayon::prelude::*;
use tokenizers::utils::truncation::TruncationParams;

use super::{
    DataError, Example, Tokenized,
    vocabulary::Vocabulary,
    word_pieces::{WordPieces, tokenizer_error, word_pieces},
};

/// Minimum sequence length: `[CLS]`, one token of text, `[SEP]`.
pub(super) const MIN_SEQUENCE: u32 = 3;

/// Converts texts to token ids.
pub(super) struct Tokenizer {
    inner: WordPieces,
    sequence: usize,
    padding: u32,
}

impl Tokenizer {
    /// Creates a tokenizer with this vocabulary that truncates to `sequence` tokens.
    pub fn new(vocabulary: &Vocabulary, sequence: u32) -> Result<Self, DataError> {
        if sequence < MIN_SEQUENCE {
            return Err(DataError::Sequence {
                requested: sequence,
                minimum: MIN_SEQUENCE,
            });
        }
        let mut inner = word_pieces(vocabulary)?;
        let padding = inner.token_to_id("[PAD]").unwrap_or_default();
        let truncation = TruncationParams {
            max_length: sequence as usize,
            ..Default::default()
        };
        inner.with_truncation(Some(truncation)).map_err(tokenizer_error)?;
        Ok(Self {
            inner,
            sequence: sequence as usize,
            padding,
        })
    }

    /// Tokenizes every example, in order.
    pub fn tokenize(&self, examples: &[Example]) -> Result<Tokenized, DataError> {
        // Keep only the ids of each text. Batch encoding would keep offsets and token strings too, which need about fifty times the memory.
        let ids = |example: &Example| -> Result<Vec<u32>, DataError> {
            let text = needed_prefix(&example.text, self.sequence);
            let encoding = self.inner.encode_fast(text, true).map_err(tokenizer_error)?;
            Ok(encoding.get_ids().to_vec())
        };
        let all: Vec<_> = examples.par_iter().map(ids).collect::<Result<_, _>>()?;
        let mut tokens = Tokenized::new(self.padding);
        for (ids, example) in all.iter().zip(examples) {
            tokens.push(ids, example.label);
        }
        Ok(tokens)
    }
}

/// Returns a prefix of the text that yields at least `sequence` tokens, so that the rest of a long review is not normalized. The prefix contains
/// `sequence` words with an ASCII letter or digit, each of which yields at least one token. Returns the whole text if it has no more of these words.
fn needed_prefix(text: &str, sequence: usize) -> &str {
    let is_token = |word: &&str| word.contains(|c: char| c.is_ascii_alphanumeric());
    match text.split_whitespace().filter(is_token).nth(sequence) {
        Some(word) => &text[..word.as_ptr().addr() - text.as_ptr().addr()],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::data::Part;

    #[derive(serde::Deserialize)]
    struct Golden {
        sequence: u32,
        vocabulary: Vec<String>,
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
    }

    fn vocabulary(tokens: &[String]) -> Vocabulary {
        Vocabulary::from_file(tokens.join("\n").as_bytes(), Path::new("vocab.txt")).unwrap()
    }

    #[test]
    fn edge_case_ids_match_the_python_package() {
        let golden: Golden = serde_json::from_str(include_str!("golden/tokenizer.json")).unwrap();
        let tokenizer = Tokenizer::new(&vocabulary(&golden.vocabulary), golden.sequence).unwrap();
        for Case { text, ids } in golden.cases {
            let tokens = tokenizer
                .tokenize(&[Example {
                    label: 0,
                    text: text.clone(),
                }])
                .unwrap();
            assert_eq!(tokens.ids(0), ids, "{text}");
        }
    }

    #[test]
    fn a_truncated_text_still_ends_with_the_separator() {
        let tokens = ["[UNK]", "[SEP]", "[CLS]", "[PAD]", "a", "b"].map(str::to_owned);
        let tokenizer = Tokenizer::new(&vocabulary(&tokens), 4).unwrap();
        let examples = ["a b a b a", "b"].map(|text| Example {
            label: 1,
            text: text.to_owned(),
        });
        let batch = tokenizer.tokenize(&examples).unwrap().padded_to(4).batch(&[0, 1]);
        assert_eq!(batch.ids, [2, 4, 5, 1, 2, 5, 1, 3]);
        assert_eq!(batch.lengths, [4, 3]);
    }

    #[test]
    fn only_the_needed_prefix_of_a_long_text_is_normalized() {
        assert_eq!(needed_prefix("one , – two three four", 2), "one , – two ");
        assert_eq!(needed_prefix("one two", 2), "one two");
        assert_eq!(needed_prefix("中 国 電 影", 2), "中 国 電 影");
    }

    #[test]
    fn a_sequence_without_room_for_text_is_rejected() {
        let tokens = ["[UNK]", "[SEP]", "[CLS]", "[PAD]"].map(str::to_owned);
        let error = Tokenizer::new(&vocabulary(&tokens), 2).err().unwrap();
        assert!(
            error
                .to_string()
                .starts_with("a sequence of 2 tokens has no room for text\n  hint: ")
        );
    }
}
