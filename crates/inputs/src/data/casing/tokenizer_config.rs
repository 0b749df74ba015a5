//! Normalization in `tokenizer_config.json`.

use serde_json::{Map, Value};

use super::{
    Casing,
    special_tokens::{check_roles, reject_added_tokens, token_text, token_texts},
};
use crate::weights::{Fields, is_bert_tokenizer};

/// Fields of `tokenizer_config.json` that do not affect token ids.
const IGNORED: &[&str] = &[
    "backend",
    "chat_template",
    "clean_up_tokenization_spaces",
    "from_slow",
    "init_inputs",
    "is_local",
    "max_len",
    "max_length",
    "max_seq_length",
    "model_input_names",
    "model_max_length",
    "model_type",
    "name_or_path",
    "pad_to_multiple_of",
    "pad_token_type_id",
    "padding",
    "processor_class",
    "return_special_tokens_mask",
    "return_token_type_ids",
    "special_tokens_map",
    "special_tokens_map_file",
    "stride",
    "tokenizer_file",
    "truncation",
    "truncation_strategy",
    "trust_remote_code",
    "use_auth_token",
    "use_fast",
    "vocab_file",
    "vocab_size",
];

impl Casing {
    /// Reads `tokenizer_config.json`. An absent field gets its value from `defaults`.
    pub(super) fn from_config(
        fields: &Map<String, Value>,
        defaults: Self,
        tokens: &[String],
    ) -> Result<Self, String> {
        let fields = Fields::new(fields);
        let casing = Self {
            lowercase: fields.flag_or("do_lower_case", defaults.lowercase),
            strip_accents: fields.flag("strip_accents").or(defaults.strip_accents),
            chinese: fields.flag_or("tokenize_chinese_chars", defaults.chinese),
        };
        fields.require_value("do_basic_tokenize", true);
        fields.require_value("wordpieces_prefix", "##");
        for name in ["padding_side", "truncation_side"] {
            fields.require_value(name, "right");
        }
        check_roles(&fields);
        if let Some(class) = fields.get("tokenizer_class") {
            let class = class.as_str().unwrap_or_default();
            if !is_bert_tokenizer(class) {
                fields.report(format!(
                    "`tokenizer_class` is {class:?}, but a `vocab.txt` is read as a `BertTokenizer`"
                ));
            }
        }
        for name in [
            "added_tokens_decoder",
            "additional_special_tokens",
            "extra_special_tokens",
            "never_split",
        ] {
            if let Some(value) = fields.get(name)
                && let Err(problem) = reject_added_tokens(token_texts(value).into_iter())
            {
                fields.report(format!("`{name}`: {problem}"));
            }
        }
        let added = fields.get("added_tokens_decoder").and_then(Value::as_object);
        for (id, token) in added.into_iter().flatten() {
            let expected = id.parse::<usize>().ok().and_then(|id| tokens.get(id));
            if !tokens.is_empty() && expected.is_none_or(|expected| expected != token_text(token)) {
                fields.report(format!(
                    "`added_tokens_decoder` has `{}` as token {id}, unlike `vocab.txt`",
                    token_text(token)
                ));
            }
        }
        match fields.finish(IGNORED) {
            problems if problems.is_empty() => Ok(casing),
            problems => Err(problems.join("\n  ")),
        }
    }
}
