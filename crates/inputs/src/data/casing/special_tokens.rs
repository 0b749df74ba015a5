//! Special tokens of BERT, and checks that a configuration adds no others.

use serde_json::Value;

use crate::weights::Fields;

/// Special tokens of all BERT models.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Reports special tokens that differ from those of BERT.
pub(super) fn check_roles(fields: &Fields<'_>) {
    for (name, token) in [
        ("cls_token", "[CLS]"),
        ("mask_token", "[MASK]"),
        ("pad_token", "[PAD]"),
        ("sep_token", "[SEP]"),
        ("unk_token", "[UNK]"),
    ] {
        // A token may be an object with `content`.
        match fields.get(name) {
            Some(Value::Object(table)) if table.get("content").and_then(Value::as_str) == Some(token) => {}
            _ => fields.require_value(name, token),
        }
    }
}

/// Rejects added tokens other than the special tokens of BERT. A tokenizer matches added tokens before it splits a text into words, which
/// is not implemented.
pub(super) fn reject_added_tokens<'a>(tokens: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let others: Vec<String> = tokens
        .filter(|token| !SPECIAL.contains(token))
        .map(|token| format!("{token:?}"))
        .collect();
    match others.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} added tokens are not supported, because they would change token ids: {}",
            others.join(", ")
        )),
    }
}

/// Returns the tokens in a JSON list, or in a JSON object whose keys are token ids or roles.
pub(super) fn token_texts(tokens: &Value) -> Vec<&str> {
    match tokens {
        Value::Array(list) => list.iter().map(token_text).collect(),
        Value::Object(table) => table.values().map(token_text).collect(),
        _ => vec![],
    }
}

/// Returns the text of a token, which may be an object.
pub(super) fn token_text(token: &Value) -> &str {
    let text = token.as_str().or_else(|| token.get("content")?.as_str());
    text.unwrap_or("token without text")
}
