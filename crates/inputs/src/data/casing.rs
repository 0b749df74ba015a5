//! Normalization of BERT's tokenizer, from the configuration next to its vocabulary.

use std::{collections::BTreeSet, path::Path};

use mantissa_core::{LARGEST_CONFIGURATION, read_limited};
use serde_json::{Map, Value};
use tokenizers::normalizers::BertNormalizer;

use super::{
    DataError,
    subwords::normal_form,
    vocabulary::{Vocabulary, has_special},
};
use crate::{
    contents,
    weights::{Fields, is_bert_tokenizer},
};

/// Names of the configuration files next to a vocabulary.
const CONFIG: &str = "tokenizer_config.json";
const TOKENIZER: &str = "tokenizer.json";
const SENTENCEPIECE: &str = "tokenizer.model";
const ADDED: &str = "added_tokens.json";
const SPECIAL_MAP: &str = "special_tokens_map.json";

/// Special tokens of all BERT models.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Text normalization before tokenization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Casing {
    /// Lowercases the text.
    lowercase: bool,
    /// Removes accents. `None` follows `lowercase`.
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
    /// Reads the configurations next to a `vocab.txt` with these tokens: `tokenizer_config.json`, `tokenizer.json`,
    /// `added_tokens.json` and `special_tokens_map.json`. Without them, returns the default.
    ///
    /// # Errors
    /// A malformed configuration, one with values that are not implemented, or two that disagree. The message names the
    /// fields.
    pub fn beside(vocabulary: &Path, tokens: &[String]) -> Result<Self, DataError> {
        let read = |name: &str| read(vocabulary, name);
        let invalid = |name: &str, reason: String| DataError::Configuration {
            path: vocabulary.with_file_name(name),
            reason,
        };
        if let Some(added) = read(ADDED)? {
            only_special(added.keys().map(String::as_str)).map_err(|reason| invalid(ADDED, reason))?;
        }
        if let Some(special) = read(SPECIAL_MAP)? {
            let tokens = special.values().flat_map(|token| match token {
                Value::Array(_) => contents(token),
                token => vec![content(token)],
            });
            only_special(tokens).map_err(|reason| invalid(SPECIAL_MAP, reason))?;
            let fields = Fields::new(&special);
            check_roles(&fields);
            let problems = fields.problems();
            if !problems.is_empty() {
                return Err(invalid(SPECIAL_MAP, problems.join("\n  ")));
            }
        }
        let of_tokenizer = match read(TOKENIZER)? {
            Some(fields) => {
                Some(Self::of_tokenizer(&fields, tokens).map_err(|reason| invalid(TOKENIZER, reason))?)
            }
            None => None,
        };
        let Some(fields) = read(CONFIG)? else {
            return Ok(of_tokenizer.unwrap_or_default());
        };
        let casing = Self::of_config(&fields, of_tokenizer.unwrap_or_default(), tokens)
            .map_err(|reason| invalid(CONFIG, reason))?;
        match of_tokenizer {
            Some(other) if other != casing => Err(invalid(
                CONFIG,
                format!(
                    "its `do_lower_case`, `strip_accents` or `tokenize_chinese_chars` disagrees with `{TOKENIZER}`\n  \
                     hint: pass `{TOKENIZER}` itself with `--vocabulary`, or make the two files agree"
                ),
            )),
            _ => Ok(casing),
        }
    }

    /// Reads `tokenizer_config.json`. `defaults` has the values of absent fields.
    fn of_config(fields: &Map<String, Value>, defaults: Self, tokens: &[String]) -> Result<Self, String> {
        let fields = Fields::new(fields);
        let casing = Self {
            lowercase: fields.flag_or("do_lower_case", defaults.lowercase),
            strip_accents: optional(&fields, "strip_accents").or(defaults.strip_accents),
            chinese: fields.flag_or("tokenize_chinese_chars", defaults.chinese),
        };
        fields.only("do_basic_tokenize", true);
        fields.only("wordpieces_prefix", "##");
        for name in ["padding_side", "truncation_side"] {
            fields.only(name, "right");
        }
        check_roles(&fields);
        if let Some(class) = fields.get("tokenizer_class") {
            let class = class.as_str().unwrap_or_default();
            if !is_bert_tokenizer(class) {
                fields.problem(format!(
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
                && let Err(problem) = only_special(contents(value).into_iter())
            {
                fields.problem(format!("`{name}`: {problem}"));
            }
        }
        let added = fields.get("added_tokens_decoder").and_then(Value::as_object);
        for (id, token) in added.into_iter().flatten() {
            let expected = id.parse::<usize>().ok().and_then(|id| tokens.get(id));
            if !tokens.is_empty() && expected.is_none_or(|expected| expected != content(token)) {
                fields.problem(format!(
                    "`added_tokens_decoder` has `{}` as token {id}, unlike `vocab.txt`",
                    content(token)
                ));
            }
        }
        match fields.finish(IGNORED) {
            problems if problems.is_empty() => Ok(casing),
            problems => Err(problems.join("\n  ")),
        }
    }

    /// Reads `tokenizer.json` next to a `vocab.txt` with these tokens.
    fn of_tokenizer(fields_of_file: &Map<String, Value>, tokens: &[String]) -> Result<Self, String> {
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
            strip_accents: optional(&fields, "strip_accents"),
            chinese: fields.flag_or("handle_chinese_chars", true),
        };
        fields.only("clean_text", true);
        let kind = |name: &str, known: &[&str]| {
            if let Some(part) = whole.get(name)
                && !part
                    .get("type")
                    .and_then(Value::as_str)
                    .is_some_and(|kind| known.contains(&kind))
            {
                whole.problem(format!("its `{name}` is not a `{}`", known.join("` or a `")));
            }
        };
        kind("pre_tokenizer", &["BertPreTokenizer"]);
        kind("post_processor", &["TemplateProcessing", "BertProcessing"]);
        if fields_of_file
            .get("post_processor")
            .is_some_and(|post| !is_bert_post_processor(post))
        {
            whole.problem(
                "its `post_processor` does not add `[CLS]` before a text and `[SEP]` after it".to_owned(),
            );
        }
        if whole
            .get("truncation")
            .and_then(|cut| cut.get("direction")?.as_str())
            .is_some_and(|side| side != "Right")
        {
            whole.problem("the `direction` of its `truncation` is not `Right`".to_owned());
        }
        if let Some(added) = whole.get("added_tokens")
            && let Err(problem) = only_special(contents(added).into_iter())
        {
            whole.problem(format!("`added_tokens`: {problem}"));
        }
        if let Some(model) = whole.get("model").and_then(Value::as_object) {
            let of_model = Fields::new(model);
            of_model.only("type", "WordPiece");
            of_model.only("continuing_subword_prefix", "##");
            of_model.only("max_input_chars_per_word", 100);
            of_model.only("unk_token", "[UNK]");
            let vocabulary = of_model.get("vocab").and_then(Value::as_object);
            let differs = |(token, id): (&String, &Value)| {
                let expected = id.as_u64().and_then(|id| tokens.get(usize::try_from(id).ok()?));
                expected != Some(token)
            };
            // If `vocab.txt` has a token twice, its id is the number of the last line.
            let distinct: BTreeSet<&String> = tokens.iter().collect();
            let is_other = |vocabulary: &Map<String, Value>| {
                vocabulary.len() != distinct.len() || vocabulary.iter().any(differs)
            };
            if !tokens.is_empty() && vocabulary.is_some_and(is_other) {
                of_model.problem("its `vocab` differs from `vocab.txt`".to_owned());
            }
            let problems = of_model.finish(&[]);
            problems
                .into_iter()
                .for_each(|problem| whole.problem(format!("`model`: {problem}")));
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

    /// Returns the normalizer.
    pub fn normalizer(self) -> BertNormalizer {
        BertNormalizer::new(true, self.chinese, self.strip_accents, self.lowercase)
    }
}

/// Reads a configuration next to a vocabulary. Returns `None` if there is no such file.
fn read(vocabulary: &Path, name: &str) -> Result<Option<Map<String, Value>>, DataError> {
    let path = vocabulary.with_file_name(name);
    if !path.is_file() {
        return Ok(None);
    }
    contents::json(&path)
        .map(Some)
        .map_err(|reason| DataError::Configuration { path, reason })
}

/// Reports special tokens that differ from those of BERT.
fn check_roles(fields: &Fields<'_>) {
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
            _ => fields.only(name, token),
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

/// Rejects a sequence that is longer than the tokenizer's configuration allows. `path` is a folder, or a file next to the configuration.
///
/// # Errors
/// A malformed configuration, or one that truncates texts to fewer than `sequence` tokens; the message names the field.
pub fn check_length(path: &Path, sequence: u32) -> Result<(), DataError> {
    let config = if path.is_dir() {
        path.join(CONFIG)
    } else {
        path.to_owned()
    };
    // transformers truncates to the first of these fields that exists.
    let fields = [
        (CONFIG, "model_max_length"),
        (CONFIG, "max_len"),
        (TOKENIZER, "truncation"),
    ];
    for (name, field) in fields {
        let value = read(&config, name)?.and_then(|mut fields| fields.remove(field));
        let longest = value.as_ref().and_then(|value| match field {
            "truncation" => value.get("max_length")?.as_f64(),
            _ => value.as_f64(),
        });
        let Some(longest) = longest else { continue };
        if longest >= f64::from(sequence) {
            return Ok(());
        }
        return Err(DataError::Configuration {
            path: config.with_file_name(name),
            reason: format!(
                "`{field}` truncates texts to {longest} tokens, but the cell uses {sequence}\n  \
                 hint: pass `-a sequence={longest}`"
            ),
        });
    }
    Ok(())
}

/// Rejects a `tokenizer.json` or `tokenizer.model` that differs from the one in the folder of a checkpoint.
fn check_tokenizer(weights: &Path, given: &Path) -> Result<(), DataError> {
    let own = if contents::json::<Value>(given).is_ok() {
        weights.join(TOKENIZER)
    } else if given.extension().is_some_and(|end| end == "model") {
        weights.join(SENTENCEPIECE)
    } else {
        // A `tok*.bin` can be made from either.
        return Ok(());
    };
    if !own.is_file() {
        return Ok(());
    }
    let bytes = |path: &Path| read_limited(path, LARGEST_CONFIGURATION).map_err(DataError::read(path));
    let (theirs, ours) = (bytes(given)?, bytes(&own)?);
    // Versions of the tokenizers library write the same tokenizer differently.
    let same = theirs == ours
        || match (normal_form(&theirs), normal_form(&ours)) {
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => false,
        };
    match same {
        true => Ok(()),
        false => Err(DataError::Configuration {
            path: own,
            reason: format!(
                "it differs from `{}`\n  hint: pass the tokenizer in this folder with `--vocabulary`",
                given.display()
            ),
        }),
    }
}

/// Rejects a vocabulary that differs from the one in a checkpoint's folder.
///
/// # Errors
/// The tokens or the normalization differ.
pub fn check_folder(weights: &Path, given: &Path) -> Result<(), DataError> {
    let weights = match weights.is_dir() {
        true => weights,
        false => weights.parent().unwrap_or(weights),
    };
    let own = weights.join("vocab.txt");
    let is_same = || given.canonicalize().ok() == own.canonicalize().ok();
    let has = |name: &str| weights.join(name).is_file();
    if !["vocab.txt", CONFIG, TOKENIZER, SENTENCEPIECE]
        .into_iter()
        .any(has)
        || has("vocab.txt") && is_same()
    {
        return Ok(());
    }
    let invalid = |reason: &str| DataError::Configuration {
        path: weights.to_owned(),
        reason: format!(
            "{reason} `{}`\n  hint: pass the vocabulary in this folder with `--vocabulary`",
            given.display()
        ),
    };
    let is_wordpiece = read_limited(given, LARGEST_CONFIGURATION)
        .is_ok_and(|bytes| has_special(&String::from_utf8_lossy(&bytes)));
    if !is_wordpiece {
        return check_tokenizer(weights, given);
    }
    let theirs = Vocabulary::open(given)?;
    let same_folder =
        given.parent().and_then(|folder| folder.canonicalize().ok()) == weights.canonicalize().ok();
    if same_folder {
        return Ok(());
    }
    if has("vocab.txt") && Vocabulary::open(&own)?.text() != theirs.text() {
        return Err(invalid("the tokens of its `vocab.txt` differ from"));
    }
    if Casing::beside(&own, &[])? != theirs.casing && (has(CONFIG) || has(TOKENIZER)) {
        return Err(invalid("its tokenizer normalizes text differently from"));
    }
    Ok(())
}

fn optional(fields: &Fields<'_>, name: &str) -> Option<bool> {
    fields.has(name).then(|| fields.flag_or(name, true))
}

/// Rejects added tokens other than the special tokens of BERT. They are matched before a text is split into words, which is not implemented.
fn only_special<'a>(tokens: impl Iterator<Item = &'a str>) -> Result<(), String> {
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

/// Returns the text of a token, which may be an object.
fn content(token: &Value) -> &str {
    let text = token.as_str().or_else(|| token.get("content")?.as_str());
    text.unwrap_or("token without text")
}

/// Returns the tokens of a list, or of an object by token id or role.
fn contents(tokens: &Value) -> Vec<&str> {
    match tokens {
        Value::Array(list) => list.iter().map(content).collect(),
        Value::Object(table) => table.values().map(content).collect(),
        _ => vec![],
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
        Casing::beside(&folder.path().join("vocab.txt"), &tokens).map_err(|error| error.to_string())
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
        // A field that is absent in the configuration is read from the tokenizer.
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
    #[test]
    fn a_sequence_that_the_tokenizer_would_truncate_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, value: Value, sequence| {
            fs::write(folder.path().join(name), value.to_string()).unwrap();
            let checked = [folder.path().to_owned(), folder.path().join("vocab.txt")]
                .map(|path| check_length(&path, sequence).map_err(|error| error.to_string()));
            fs::remove_file(folder.path().join(name)).unwrap();
            assert_eq!(checked[0], checked[1]);
            checked[0].clone()
        };
        let config = "tokenizer_config.json";
        assert_eq!(check(config, json!({ "model_max_length": 128 }), 128), Ok(()));
        assert_eq!(check(config, json!({ "model_max_length": 1e30 }), 512), Ok(()));
        let error = check(config, json!({ "model_max_length": 128 }), 256).unwrap_err();
        assert!(
            error.contains("`model_max_length` truncates texts to 128 tokens"),
            "{error}"
        );
        let truncation = json!({ "truncation": { "max_length": 64, "direction": "Right" } });
        let error = check("tokenizer.json", truncation, 65).unwrap_err();
        assert!(
            error.contains("`truncation` truncates texts to 64 tokens"),
            "{error}"
        );
        assert_eq!(
            check("tokenizer.json", json!({ "truncation": null }), 512),
            Ok(())
        );
    }

    #[test]
    fn the_tokenizer_of_another_checkpoint_is_rejected() {
        let (weights, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |folder: &tempfile::TempDir, name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let model = put(&weights, "model.safetensors", "");
        let tokenizer = |token: &str, truncation: Value| {
            json!({ "version": "1.0", "truncation": truncation, "model": {
                "type": "WordLevel", "vocab": { token: 0 }, "unk_token": token
            } })
            .to_string()
        };
        put(&weights, "tokenizer.json", &tokenizer("a", Value::Null));
        put(&weights, "tokenizer.model", "pieces");
        let cut = json!({ "direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0 });
        let same = put(&other, "same.json", &tokenizer("a", cut));
        let differs = put(&other, "differs.json", &tokenizer("b", Value::Null));
        let pieces = put(&other, "pieces.model", "pieces");
        let others = put(&other, "others.model", "others");
        for weights in [weights.path(), &model] {
            for given in [&same, &pieces, &weights.with_file_name("tok512.bin")] {
                assert!(check_folder(weights, given).is_ok(), "{}", given.display());
            }
            for given in [&differs, &others] {
                let error = check_folder(weights, given).unwrap_err().to_string();
                assert!(error.contains("it differs from"), "{error}");
            }
        }
    }
}
