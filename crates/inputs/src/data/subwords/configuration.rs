//! Checks the configuration files next to a tokenizer. Unsupported values that would change token ids are errors.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::Subwords;
use crate::{
    contents,
    data::{
        DataError,
        tokenizer_files::{ADDED_TOKENS, SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG},
    },
    weights::Fields,
};

/// Fields with special tokens.
const SPECIAL_TOKEN_FIELDS: [&str; 7] = [
    "bos_token",
    "cls_token",
    "eos_token",
    "mask_token",
    "pad_token",
    "sep_token",
    "unk_token",
];

/// Fields of `tokenizer_config.json` that do not affect the token ids of running text.
const IGNORED: &[&str] = &[
    "backend",
    "chat_template",
    "clean_up_tokenization_spaces",
    "errors",
    "from_slow",
    "init_inputs",
    "is_local",
    "legacy",
    "max_len",
    "max_length",
    "max_seq_length",
    "merges_file",
    "model_input_names",
    "model_max_length",
    "model_type",
    "name_or_path",
    "pad_to_multiple_of",
    "pad_token_type_id",
    "padding",
    "padding_side",
    "processor_class",
    "return_special_tokens_mask",
    "return_token_type_ids",
    "spaces_between_special_tokens",
    "special_tokens_map",
    "special_tokens_map_file",
    "stride",
    "tokenizer_class",
    "tokenizer_file",
    "trim_offsets",
    "truncation",
    "truncation_side",
    "truncation_strategy",
    "trust_remote_code",
    "use_auth_token",
    "use_default_system_prompt",
    "use_fast",
    "vocab_file",
    "vocab_size",
    "wordpieces_prefix",
];

/// Checks `tokenizer_config.json`, `added_tokens.json` and `special_tokens_map.json` next to a tokenizer. `tokenizer_json` is the parsed
/// file if the tokenizer is a `tokenizer.json`.
///
/// # Errors
/// A malformed file, or values that contradict the tokenizer. The message names the fields.
pub(super) fn check(
    tokenizer: &Path,
    tokenizer_json: Option<&Value>,
    subwords: &dyn Subwords,
) -> Result<(), DataError> {
    for (name, problems) in [
        (TOKENIZER_CONFIG, problems_of_config as Problems),
        (ADDED_TOKENS, problems_of_added),
        (SPECIAL_TOKENS_MAP, problems_of_special_map),
    ] {
        let path = tokenizer.with_file_name(name);
        if !path.is_file() {
            continue;
        }
        let checked = contents::json::<Map<String, Value>>(&path)
            .map(|fields| problems(&fields, tokenizer_json, subwords).join("\n  "))
            .and_then(|problems| match problems.is_empty() {
                true => Ok(()),
                false => Err(problems),
            });
        checked.map_err(|reason| DataError::Configuration { path, reason })?;
    }
    Ok(())
}

/// Function that returns the problems of a configuration file.
type Problems = fn(&Map<String, Value>, Option<&Value>, &dyn Subwords) -> Vec<String>;

fn problems_of_config(
    fields: &Map<String, Value>,
    tokenizer_json: Option<&Value>,
    subwords: &dyn Subwords,
) -> Vec<String> {
    let fields = Fields::new(fields);
    fields.require_value("add_bos_token", subwords.beginning().is_some());
    fields.require_value("add_eos_token", false);
    fields.require_value("add_prefix_space", tokenizer_json.is_none_or(has_prefix_space));
    fields.require_value("auto_map", Value::Null);
    fields.require_value("do_basic_tokenize", true);
    fields.require_value("never_split", Value::Null);
    fields.require_value("sp_model_kwargs", json!({}));
    fields.require_value("split_special_tokens", false);
    let normalizer = tokenizer_json.map(|tokenizer_json| &tokenizer_json["normalizer"]);
    let bert_normalizer = normalizer.filter(|normalizer| normalizer["type"] == "BertNormalizer");
    for (name, normalizer_field, default) in [
        ("do_lower_case", "lowercase", json!(false)),
        ("strip_accents", "strip_accents", json!(null)),
        ("tokenize_chinese_chars", "handle_chinese_chars", json!(null)),
    ] {
        fields.require_value(
            name,
            bert_normalizer.map_or(default, |normalizer| normalizer[normalizer_field].clone()),
        );
    }
    check_roles(&fields, subwords);
    if let Some(added) = fields.get("added_tokens_decoder").and_then(Value::as_object) {
        for (id, token) in added {
            let id = id.parse().ok();
            check_token(&fields, "added_tokens_decoder", (content(token), id), subwords);
        }
    }
    fields.finish(IGNORED)
}

fn problems_of_added(fields: &Map<String, Value>, _: Option<&Value>, subwords: &dyn Subwords) -> Vec<String> {
    let tokens = fields.iter();
    let fields = Fields::new(fields);
    for (token, id) in tokens {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        check_token(&fields, "added_tokens", (token, id), subwords);
    }
    fields.problems()
}

fn problems_of_special_map(
    fields: &Map<String, Value>,
    _: Option<&Value>,
    subwords: &dyn Subwords,
) -> Vec<String> {
    let fields = Fields::new(fields);
    check_roles(&fields, subwords);
    fields.problems()
}

/// Reports special tokens that are not in the tokenizer, and a `bos_token` other than the beginning token of the tokenizer.
fn check_roles(fields: &Fields<'_>, subwords: &dyn Subwords) {
    for role in SPECIAL_TOKEN_FIELDS {
        // Early LLaMA exports contain empty strings.
        let Some(token) = fields.get(role).map(content).filter(|token| !token.is_empty()) else {
            continue;
        };
        let id = match role {
            "bos_token" => subwords.beginning(),
            _ => None,
        };
        check_token(fields, role, (token, id), subwords);
    }
    for list in ["additional_special_tokens", "extra_special_tokens"] {
        let tokens: Vec<&Value> = match fields.get(list) {
            Some(Value::Array(tokens)) => tokens.iter().collect(),
            Some(Value::Object(tokens)) => tokens.values().collect(),
            _ => vec![],
        };
        for token in tokens {
            check_token(fields, list, (content(token), None), subwords);
        }
    }
}

/// Reports a token that is not in the tokenizer, or has another id there.
fn check_token(fields: &Fields<'_>, name: &str, (token, id): (&str, Option<u32>), subwords: &dyn Subwords) {
    match subwords.id_of(token) {
        None => fields.report(format!(
            "`{name}` contains the token {token:?}, which is not in the tokenizer"
        )),
        Some(expected) => {
            if let Some(id) = id.filter(|id| *id != expected) {
                fields.report(format!(
                    "`{name}` maps the token {token:?} to the id {id}, but the tokenizer maps it to {expected}"
                ));
            }
        }
    }
}

/// Returns the text of a token, which is a string or an object with `content`.
fn content(token: &Value) -> &str {
    let text = token.as_str().or_else(|| token.get("content")?.as_str());
    text.unwrap_or_default()
}

/// Returns true if a `tokenizer.json` inserts a space before every text.
fn has_prefix_space(tokenizer_json: &Value) -> bool {
    let steps = |name: &str, list: &str| -> Vec<&Value> {
        let step = &tokenizer_json[name];
        step[list]
            .as_array()
            .map_or(vec![step], |steps| steps.iter().collect())
    };
    let splits = steps("pre_tokenizer", "pretokenizers").into_iter().any(|step| {
        step["add_prefix_space"] == true
            || step["type"] == "Metaspace"
                && step["prepend_scheme"]
                    .as_str()
                    .is_some_and(|when| when != "never")
    });
    splits
        || steps("normalizer", "normalizers")
            .into_iter()
            .any(|step| step["type"] == "Prepend")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::TextTokenizer;

    /// Creates a tokenizer with a beginning token.
    fn tokenizer() -> Value {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "decoder": null,
            "added_tokens": [{ "id": 1, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false }],
            "normalizer": null, "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                "use_regex": true },
            "post_processor": { "type": "TemplateProcessing",
                "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
                "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 0 } }],
                "special_tokens": { "<s>": { "id": "<s>", "ids": [1], "tokens": ["<s>"] } } },
            "model": { "type": "BPE", "vocab": { "a": 0, "<s>": 1, "</s>": 2 }, "merges": [] }
        })
    }

    fn open(name: &str, value: Value) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, tokenizer().to_string()).unwrap();
        fs::write(folder.path().join(name), value.to_string()).unwrap();
        TextTokenizer::open(&path)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn published_configurations_are_accepted() {
        let config = json!({
            "add_bos_token": true, "add_eos_token": false, "add_prefix_space": false, "bos_token": { "content": "<s>" },
            "added_tokens_decoder": { "1": { "content": "<s>", "special": true } }, "clean_up_tokenization_spaces": false,
            "eos_token": "</s>", "legacy": false, "model_max_length": 1e30, "pad_token": null, "sp_model_kwargs": {},
            "tokenizer_class": "LlamaTokenizer", "chat_template": "{{ messages }}"
        });
        assert_eq!(open(TOKENIZER_CONFIG, config), Ok(()));
        assert_eq!(
            open(
                SPECIAL_TOKENS_MAP,
                json!({ "bos_token": "<s>", "eos_token": "</s>" })
            ),
            Ok(())
        );
        assert_eq!(open(ADDED_TOKENS, json!({ "</s>": 2 })), Ok(()));
        let early =
            json!({ "bos_token": "", "eos_token": "", "unk_token": "", "tokenizer_class": "LLaMATokenizer" });
        assert_eq!(open(TOKENIZER_CONFIG, early), Ok(()));
        let exported = json!({ "add_prefix_space": false, "errors": "replace", "vocab_size": 3, "model_max_length": 1024 });
        assert_eq!(open(TOKENIZER_CONFIG, exported), Ok(()));
    }

    #[test]
    fn values_that_change_token_ids_are_rejected_by_name() {
        for (name, value) in [
            ("add_bos_token", json!(false)),
            ("add_eos_token", json!(true)),
            ("add_prefix_space", json!(true)),
            ("added_tokens_decoder", json!({ "3": { "content": "good film" } })),
            ("added_tokens_decoder", json!({ "0": { "content": "</s>" } })),
            ("additional_special_tokens", json!(["<name>"])),
            ("bos_token", json!("</s>")),
            ("do_lower_case", json!(true)),
            ("pad_token", json!("<pad>")),
            ("an_unknown_field", json!(1)),
        ] {
            let error = open(TOKENIZER_CONFIG, json!({ name: value })).unwrap_err();
            assert!(
                error.contains(TOKENIZER_CONFIG) && error.contains(name),
                "{name}: {error}"
            );
        }
        assert!(
            open(ADDED_TOKENS, json!({ "good film": 3 }))
                .unwrap_err()
                .contains("\"good film\"")
        );
        assert!(
            open(SPECIAL_TOKENS_MAP, json!({ "bos_token": "</s>" }))
                .unwrap_err()
                .contains("`bos_token`")
        );
    }
}
