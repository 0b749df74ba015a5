//! Normalization of BERT's tokenizer, from the configuration next to its vocabulary.

mod special_tokens;
mod tokenizer_config;
mod tokenizer_json;

use std::path::Path;

use serde_json::Value;
use special_tokens::{check_roles, reject_added_tokens, token_text, token_texts};
use tokenizers::normalizers::BertNormalizer;

use super::{
    DataError,
    tokenizer_files::{self, ADDED_TOKENS, SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG, TOKENIZER_JSON},
};
use crate::weights::Fields;

/// Text normalization before tokenization. Cache keys contain its `Debug` output, so they change with the field names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Casing {
    /// Lowercases the text.
    lowercase: bool,
    /// Removes accents. `None` removes them if `lowercase` is true.
    strip_accents: Option<bool>,
    /// Inserts spaces around Chinese characters.
    chinese: bool,
}

impl Default for Casing {
    /// Returns the configuration of bert-base-uncased.
    fn default() -> Self {
        Self {
            lowercase: true,
            strip_accents: None,
            chinese: true,
        }
    }
}

impl Casing {
    /// Reads the configuration files next to a `vocab.txt`: `tokenizer_config.json`, `tokenizer.json`, `added_tokens.json` and
    /// `special_tokens_map.json`. Without them, returns the default. `tokens` are the lines of the `vocab.txt`.
    ///
    /// # Errors
    /// A malformed configuration, one with values that are not implemented, or two that disagree. The message names the
    /// fields.
    pub fn for_vocabulary(vocabulary: &Path, tokens: &[String]) -> Result<Self, DataError> {
        let read = |name: &str| tokenizer_files::read(vocabulary, name);
        let invalid = |name: &str, reason: String| DataError::Configuration {
            path: vocabulary.with_file_name(name),
            reason,
        };
        if let Some(added) = read(ADDED_TOKENS)? {
            reject_added_tokens(added.keys().map(String::as_str))
                .map_err(|reason| invalid(ADDED_TOKENS, reason))?;
        }
        if let Some(special) = read(SPECIAL_TOKENS_MAP)? {
            let tokens = special.values().flat_map(|token| match token {
                Value::Array(_) => token_texts(token),
                token => vec![token_text(token)],
            });
            reject_added_tokens(tokens).map_err(|reason| invalid(SPECIAL_TOKENS_MAP, reason))?;
            let fields = Fields::new(&special);
            check_roles(&fields);
            let problems = fields.problems();
            if !problems.is_empty() {
                return Err(invalid(SPECIAL_TOKENS_MAP, problems.join("\n  ")));
            }
        }
        let tokenizer_casing = match read(TOKENIZER_JSON)? {
            Some(fields) => Some(
                Self::from_tokenizer_json(&fields, tokens)
                    .map_err(|reason| invalid(TOKENIZER_JSON, reason))?,
            ),
            None => None,
        };
        let Some(fields) = read(TOKENIZER_CONFIG)? else {
            return Ok(tokenizer_casing.unwrap_or_default());
        };
        let casing = Self::from_config(&fields, tokenizer_casing.unwrap_or_default(), tokens)
            .map_err(|reason| invalid(TOKENIZER_CONFIG, reason))?;
        match tokenizer_casing {
            Some(other) if other != casing => Err(invalid(
                TOKENIZER_CONFIG,
                format!(
                    "its `do_lower_case`, `strip_accents` or `tokenize_chinese_chars` disagrees with `{TOKENIZER_JSON}`\n  \
                     hint: pass `{TOKENIZER_JSON}` itself with `--vocabulary`, or make the two files agree"
                ),
            )),
            _ => Ok(casing),
        }
    }

    /// Returns the normalizer.
    pub fn normalizer(self) -> BertNormalizer {
        BertNormalizer::new(true, self.chinese, self.strip_accents, self.lowercase)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn casing_of(files: &[(&str, Value)]) -> Result<Casing, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in files {
            fs::write(folder.path().join(name), value.to_string()).unwrap();
        }
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film"].map(str::to_owned);
        Casing::for_vocabulary(&folder.path().join("vocab.txt"), &tokens).map_err(|error| error.to_string())
    }

    #[test]
    fn normalization_is_read_from_the_configuration() {
        let cased = Casing {
            lowercase: false,
            ..Casing::default()
        };
        assert_eq!(casing_of(&[]), Ok(Casing::default()));
        // Configuration of bert-base-cased.
        let config =
            json!({ "do_lower_case": false, "model_max_length": 512, "tokenizer_class": "BertTokenizer" });
        assert_eq!(casing_of(&[("tokenizer_config.json", config)]), Ok(cased));
        let whole = json!({ "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
            "lowercase": false
        } });
        assert_eq!(casing_of(&[("tokenizer.json", whole)]), Ok(cased));
        let accents =
            json!({ "do_lower_case": true, "strip_accents": false, "tokenize_chinese_chars": false });
        let expected = Casing {
            lowercase: true,
            strip_accents: Some(false),
            chinese: false,
        };
        assert_eq!(casing_of(&[("tokenizer_config.json", accents)]), Ok(expected));
    }

    #[test]
    fn unsupported_fields_are_rejected_by_name() {
        for (name, value) in [
            ("do_lower_case", json!("no")),
            ("do_basic_tokenize", json!(false)),
            ("truncation_side", json!("left")),
            ("never_split", json!(["covid-19"])),
            (
                "added_tokens_decoder",
                json!({ "21": { "content": "[NAME]", "special": true } }),
            ),
            ("additional_special_tokens", json!(["[NAME]"])),
            ("extra_special_tokens", json!({ "name_token": "[NAME]" })),
            ("cls_token", json!("<s>")),
            ("tokenizer_class", json!("RobertaTokenizer")),
            ("do_subword_sampling", json!(true)),
        ] {
            let error = casing_of(&[("tokenizer_config.json", json!({ name: value }))]).unwrap_err();
            assert!(
                error.contains("tokenizer_config.json") && error.contains(name),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn conflicting_files_and_added_tokens_are_rejected() {
        let whole =
            |lowercase: bool| json!({ "normalizer": { "type": "BertNormalizer", "lowercase": lowercase } });
        let config = |more: Value| ("tokenizer_config.json", more);
        // As transformers saves bert-base-uncased.
        let special = json!({ "added_tokens_decoder": {
            "0": { "content": "[PAD]" }, "1": { "content": "[UNK]" }, "2": { "content": "[CLS]" }
        }, "additional_special_tokens": [], "extra_special_tokens": {}, "mask_token": "[MASK]" });
        assert_eq!(casing_of(&[config(special.clone())]), Ok(Casing::default()));
        // A field that is absent in `tokenizer_config.json` is read from `tokenizer.json`.
        let cased = casing_of(&[config(special), ("tokenizer.json", whole(false))]).unwrap();
        assert!(!cased.lowercase);
        let error = casing_of(&[
            config(json!({ "do_lower_case": true })),
            ("tokenizer.json", whole(false)),
        ])
        .unwrap_err();
        assert!(error.contains("disagrees with `tokenizer.json`"), "{error}");
        let error = casing_of(&[("special_tokens_map.json", json!({ "cls_token": "<s>" }))]).unwrap_err();
        assert!(error.contains("special_tokens_map.json"), "{error}");
        let swapped = json!({ "cls_token": "[SEP]", "sep_token": { "content": "[CLS]" } });
        let error = casing_of(&[("special_tokens_map.json", swapped)]).unwrap_err();
        assert!(
            error.contains("`cls_token`") && error.contains("`sep_token`"),
            "{error}"
        );
        let other_id = json!({ "added_tokens_decoder": { "3": { "content": "[CLS]" } } });
        assert!(
            casing_of(&[config(other_id)])
                .unwrap_err()
                .contains("unlike `vocab.txt`")
        );
        for (name, value) in [
            ("pre_tokenizer", json!({ "type": "WhitespaceSplit" })),
            ("post_processor", json!({ "type": "RobertaProcessing" })),
            ("truncation", json!({ "direction": "Left", "max_length": 4 })),
            ("added_tokens", json!([{ "id": 9, "content": "the film" }])),
            ("model", json!({ "type": "BPE" })),
            ("model", json!({ "type": "WordPiece", "vocab": { "film": 4 } })),
            (
                "model",
                json!({ "type": "WordPiece", "vocab": { "[PAD]": 0, "film": 5 } }),
            ),
            ("post_processor", json!(null)),
            (
                "post_processor",
                json!({ "type": "BertProcessing", "cls": ["[SEP]", 3], "sep": ["[CLS]", 2] }),
            ),
            (
                "post_processor",
                json!({ "type": "TemplateProcessing", "single": [{ "Sequence": { "id": "A", "type_id": 0 } }] }),
            ),
            (
                "model",
                json!({ "type": "WordPiece", "continuing_subword_prefix": "@@" }),
            ),
            ("unknown_field", json!(1)),
        ] {
            let mut whole = whole(true);
            whole[name] = value;
            let error = casing_of(&[("tokenizer.json", whole)]).unwrap_err();
            assert!(error.contains(name), "{name}: {error}");
        }
        let mut published = whole(true);
        published["model"] = json!({ "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": { "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "film": 5 } });
        published["pre_tokenizer"] = json!({ "type": "BertPreTokenizer" });
        published["post_processor"] = json!({ "type": "TemplateProcessing", "single": [
            { "SpecialToken": { "id": "[CLS]", "type_id": 0 } },
            { "Sequence": { "id": "A", "type_id": 0 } },
            { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }
        ] });
        assert_eq!(casing_of(&[("tokenizer.json", published)]), Ok(Casing::default()));
        let error = casing_of(&[("added_tokens.json", json!({ "[NAME]": 21 }))]).unwrap_err();
        assert!(
            error.contains("added_tokens.json") && error.contains("\"[NAME]\""),
            "{error}"
        );
        assert_eq!(
            casing_of(&[("added_tokens.json", json!({ "[MASK]": 4 }))]),
            Ok(Casing::default())
        );
    }
}
