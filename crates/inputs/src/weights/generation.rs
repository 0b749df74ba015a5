//! Checks `generation_config.json` next to the weights. The suite defines how tokens are generated, and the values in the file are not used.
//! Values that the suite overrides are reported. Values that a suite cannot express are errors.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::Fields;
use crate::contents;

/// File name of the configuration.
const CONFIG_FILE: &str = "generation_config.json";

/// Fields whose values the suite defines: greedy decoding or a temperature, and the number of new tokens.
const SET_BY_SUITE: &[&str] = &[
    "do_sample",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "temperature",
    "top_k",
    "top_p",
];

/// Fields that do not affect the generated tokens.
const IGNORED: &[&str] = &[
    "bos_token_id",
    "cache_implementation",
    "chat_format",
    "decoder_start_token_id",
    "disable_compile",
    "eos_token_id",
    "max_time",
    "max_window_size",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "return_dict_in_generate",
    "stop_strings",
    "transformers_version",
    "use_cache",
];

/// Checks the configuration next to a checkpoint, which is a file or a folder. Returns a note if it contains values that the suite overrides.
///
/// # Errors
/// A malformed configuration, or one with unsupported generation settings. The message names the fields.
pub fn generation_note(weights: &Path) -> Result<Option<String>, String> {
    let path = match weights.is_dir() {
        true => weights.join(CONFIG_FILE),
        false => weights.with_file_name(CONFIG_FILE),
    };
    if !path.is_file() {
        return Ok(None);
    }
    let with_path = |error: String| format!("`{}`: {error}", path.display());
    let fields: Map<String, Value> = contents::json(&path).map_err(with_path)?;
    override_note(&fields).map_err(with_path)
}

/// Returns a note about values that the suite overrides.
fn override_note(fields: &Map<String, Value>) -> Result<Option<String>, String> {
    let fields = Fields::new(fields);
    for (name, supported) in [
        ("diversity_penalty", json!(0.0)),
        ("encoder_no_repeat_ngram_size", json!(0)),
        ("encoder_repetition_penalty", json!(1.0)),
        ("epsilon_cutoff", json!(0.0)),
        ("eta_cutoff", json!(0.0)),
        ("no_repeat_ngram_size", json!(0)),
        ("num_beam_groups", json!(1)),
        ("num_beams", json!(1)),
        ("remove_invalid_values", json!(false)),
        ("renormalize_logits", json!(false)),
        ("repetition_penalty", json!(1.0)),
        ("typical_p", json!(1.0)),
        // `early_stopping` and `length_penalty` affect only beam search.
        ("early_stopping", json!(false)),
        ("length_penalty", json!(1.0)),
    ] {
        fields.require_value(name, supported);
    }
    let overridden = SET_BY_SUITE
        .iter()
        .filter_map(|name| Some(format!("`{name}` {}", fields.get(name)?)));
    let overridden: Vec<String> = overridden.collect();
    match fields.finish(IGNORED) {
        problems if !problems.is_empty() => Err(problems.join("\n  ")),
        _ => Ok((!overridden.is_empty()).then(|| {
            format!(
                "`{CONFIG_FILE}` is ignored because the suite defines the sampling; ignored values: {}",
                overridden.join(", ")
            )
        })),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(CONFIG_FILE), text).unwrap();
        let next_to_file = generation_note(&folder.path().join("model.safetensors"));
        assert_eq!(generation_note(folder.path()), next_to_file);
        next_to_file.map_err(|error| error.split_once("`: ").unwrap().1.to_owned())
    }

    #[test]
    fn sampling_values_are_reported_as_ignored() {
        assert_eq!(generation_note(Path::new("/nowhere")), Ok(None));
        // The file of Llama 3.2 1B.
        let llama = r#"{"_from_model_config": true, "bos_token_id": 128000, "do_sample": true, "eos_token_id": 128001,
            "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0.dev0"}"#;
        let note = read(llama).unwrap().unwrap();
        assert!(
            note.ends_with("`do_sample` true, `temperature` 0.6, `top_p` 0.9"),
            "{note}"
        );
        assert_eq!(read(r#"{"eos_token_id": 50256, "num_beams": 1}"#), Ok(None));
    }

    #[test]
    fn settings_that_a_suite_cannot_express_are_rejected() {
        for field in [
            r#""repetition_penalty": 1.1"#,
            r#""num_beams": 4"#,
            r#""suppress_tokens": [1, 2]"#,
            r#""an_unknown_field": 1"#,
        ] {
            let name = field.split('"').nth(1).unwrap();
            let error = read(&format!("{{{field}}}")).unwrap_err();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
        assert!(read("[]").is_err());
        assert!(read("{").is_err());
    }
}
