//! Normalization in `tokenizer.json`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    Casing,
    special_tokens::{reject_added_tokens, token_texts},
};
use crate::weights::Fields;

impl Casing {
    /// Reads `tokenizer.json` next to a `vocab.txt`, whose lines are `tokens`.
    pub(super) fn from_tokenizer_json(
        fields_of_file: &Map<String, Value>,
        tokens: &[String],
    ) -> Result<Self, String> {
        const HINT: &str = "hint: for running text, pass `tokenizer.json` itself with `--vocabulary`";
        let whole = Fields::new(fields_of_file);
        let Some(normalizer) = whole.get("normalizer").and_then(Value::as_object) else {
            return Err(format!("it has no `normalizer`\n  {HINT}"));
        };
        if normalizer.get("type").and_then(Value::as_str) != Some("BertNormalizer") {
            return Err(format!("its `normalizer` is not a `BertNormalizer`\n  {HINT}"));
        }
        let fields = Fields::new(normalizer);
        let casing = Self {
            lowercase: fields.flag_or("lowercase", true),
            strip_accents: fields.flag("strip_accents"),
            chinese: fields.flag_or("handle_chinese_chars", true),
        };
        fields.require_value("clean_text", true);
        let check_type = |name: &str, supported: &[&str]| {
            if let Some(part) = whole.get(name)
                && !part
                    .get("type")
                    .and_then(Value::as_str)
                    .is_some_and(|kind| supported.contains(&kind))
            {
                whole.report(format!("its `{name}` is not a `{}`", supported.join("` or a `")));
            }
        };
        check_type("pre_tokenizer", &["BertPreTokenizer"]);
        check_type("post_processor", &["TemplateProcessing", "BertProcessing"]);
        if fields_of_file
            .get("post_processor")
            .is_some_and(|post| !is_bert_post_processor(post))
        {
            whole.report(
                "its `post_processor` does not add `[CLS]` before a text and `[SEP]` after it".to_owned(),
            );
        }
        if whole
            .get("truncation")
            .and_then(|cut| cut.get("direction")?.as_str())
            .is_some_and(|side| side != "Right")
        {
            whole.report("the `direction` of its `truncation` is not `Right`".to_owned());
        }
        if let Some(added) = whole.get("added_tokens")
            && let Err(problem) = reject_added_tokens(token_texts(added).into_iter())
        {
            whole.report(format!("`added_tokens`: {problem}"));
        }
        if let Some(model) = whole.get("model").and_then(Value::as_object) {
            let model_fields = Fields::new(model);
            model_fields.require_value("type", "WordPiece");
            model_fields.require_value("continuing_subword_prefix", "##");
            model_fields.require_value("max_input_chars_per_word", 100);
            model_fields.require_value("unk_token", "[UNK]");
            let vocabulary = model_fields.get("vocab").and_then(Value::as_object);
            let differs = |(token, id): (&String, &Value)| {
                let expected = id.as_u64().and_then(|id| tokens.get(usize::try_from(id).ok()?));
                expected != Some(token)
            };
            // If `vocab.txt` has a token twice, the token has the id of the last line.
            let distinct: BTreeSet<&String> = tokens.iter().collect();
            let is_different = |vocabulary: &Map<String, Value>| {
                vocabulary.len() != distinct.len() || vocabulary.iter().any(differs)
            };
            if !tokens.is_empty() && vocabulary.is_some_and(is_different) {
                model_fields.report("its `vocab` differs from `vocab.txt`".to_owned());
            }
            let problems = model_fields.finish(&[]);
            problems
                .into_iter()
                .for_each(|problem| whole.report(format!("`model`: {problem}")));
        }
        let problems = [
            fields.finish(&["type"]),
            whole.finish(&["version", "padding", "decoder"]),
        ]
        .concat();
        match problems.is_empty() {
            true => Ok(casing),
            false => Err(format!("{}\n  {HINT}", problems.join("\n  "))),
        }
    }
}

/// Returns true for the post-processor of BERT: `[CLS]` before a text and `[SEP]` after it.
fn is_bert_post_processor(post_processor: &Value) -> bool {
    let token = |name: &str| post_processor[name][0].as_str();
    match post_processor["type"].as_str() {
        Some("BertProcessing") => token("cls") == Some("[CLS]") && token("sep") == Some("[SEP]"),
        Some("TemplateProcessing") => {
            let parts = post_processor["single"].as_array().map_or(&[][..], Vec::as_slice);
            let part = |kind: &str, id: &str| serde_json::json!({ kind: { "id": id, "type_id": 0 } });
            parts
                == [
                    part("SpecialToken", "[CLS]"),
                    part("Sequence", "A"),
                    part("SpecialToken", "[SEP]"),
                ]
        }
        _ => false,
    }
}
