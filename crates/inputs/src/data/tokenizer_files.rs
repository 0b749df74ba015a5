//! Names of the configuration files of a tokenizer, which are next to its vocabulary.

use std::path::Path;

use serde_json::{Map, Value};

use super::DataError;
use crate::contents;

/// Settings of the tokenizer class of transformers.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// Whole tokenizer of the `tokenizers` library.
pub(super) const TOKENIZER_JSON: &str = "tokenizer.json";
/// SentencePiece model.
pub(super) const SENTENCEPIECE_MODEL: &str = "tokenizer.model";
/// Ids of added tokens.
pub(super) const ADDED_TOKENS: &str = "added_tokens.json";
/// Special tokens by their roles.
pub(super) const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";

/// Reads a configuration next to a vocabulary. Returns `None` if there is no such file.
pub(super) fn read(vocabulary: &Path, name: &str) -> Result<Option<Map<String, Value>>, DataError> {
    let path = vocabulary.with_file_name(name);
    if !path.is_file() {
        return Ok(None);
    }
    contents::json(&path)
        .map(Some)
        .map_err(|reason| DataError::Configuration { path, reason })
}
