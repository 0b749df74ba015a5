//! Maximum sequence length in the configuration of a tokenizer.

use std::path::Path;

use super::{
    DataError,
    tokenizer_files::{TOKENIZER_CONFIG, TOKENIZER_JSON, read},
};

/// Rejects a sequence that is longer than the configuration of the tokenizer allows. `path` is a folder, or a file next to the
/// configuration.
///
/// # Errors
/// A malformed configuration, or one that truncates texts to fewer than `sequence` tokens; the message names the field.
pub fn check_length(path: &Path, sequence: u32) -> Result<(), DataError> {
    let config = if path.is_dir() {
        path.join(TOKENIZER_CONFIG)
    } else {
        path.to_owned()
    };
    // transformers truncates to the first of these fields that exists.
    let fields = [
        (TOKENIZER_CONFIG, "model_max_length"),
        (TOKENIZER_CONFIG, "max_len"),
        (TOKENIZER_JSON, "truncation"),
    ];
    for (name, field) in fields {
        let value = read(&config, name)?.and_then(|mut fields| fields.remove(field));
        let max_tokens = value.as_ref().and_then(|value| match field {
            "truncation" => value.get("max_length")?.as_f64(),
            _ => value.as_f64(),
        });
        let Some(max_tokens) = max_tokens else { continue };
        if max_tokens >= f64::from(sequence) {
            return Ok(());
        }
        return Err(DataError::Configuration {
            path: config.with_file_name(name),
            reason: format!(
                "`{field}` truncates texts to {max_tokens} tokens, but the cell uses {sequence}\n  \
                 hint: pass `-a sequence={max_tokens}`"
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

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
}
