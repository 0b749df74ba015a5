//! Checks that a vocabulary or tokenizer is the one of a checkpoint.

use std::path::Path;

use mantissa_core::{MAX_CONFIGURATION_BYTES, read_limited};
use serde_json::Value;

use super::{
    DataError,
    casing::Casing,
    subwords::normal_form,
    tokenizer_files::{SENTENCEPIECE_MODEL, TOKENIZER_CONFIG, TOKENIZER_JSON},
    vocabulary::{Vocabulary, has_required_tokens},
};
use crate::contents;

/// Rejects a vocabulary or tokenizer that differs from the one in the folder of a checkpoint. Accepts every vocabulary or tokenizer if the folder
/// does not contain one.
///
/// # Errors
/// The tokens or the normalization differ, or a file cannot be read.
pub fn check_vocabulary_of_checkpoint(weights: &Path, given: &Path) -> Result<(), DataError> {
    let weights = match weights.is_dir() {
        true => weights,
        false => weights.parent().unwrap_or(weights),
    };
    let vocab_txt = weights.join("vocab.txt");
    let is_same = || given.canonicalize().ok() == vocab_txt.canonicalize().ok();
    let has = |name: &str| weights.join(name).is_file();
    if !["vocab.txt", TOKENIZER_CONFIG, TOKENIZER_JSON, SENTENCEPIECE_MODEL]
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
    let is_wordpiece = read_limited(given, MAX_CONFIGURATION_BYTES)
        .is_ok_and(|bytes| has_required_tokens(&String::from_utf8_lossy(&bytes)));
    if !is_wordpiece {
        return check_tokenizer(weights, given);
    }
    let vocabulary = Vocabulary::open(given)?;
    let same_folder =
        given.parent().and_then(|folder| folder.canonicalize().ok()) == weights.canonicalize().ok();
    if same_folder {
        return Ok(());
    }
    if has("vocab.txt") && Vocabulary::open(&vocab_txt)?.text() != vocabulary.text() {
        return Err(invalid("the tokens of its `vocab.txt` differ from"));
    }
    if Casing::for_vocabulary(&vocab_txt, &[])? != vocabulary.casing
        && (has(TOKENIZER_CONFIG) || has(TOKENIZER_JSON))
    {
        return Err(invalid("its tokenizer normalizes text differently from"));
    }
    Ok(())
}

/// Rejects a `tokenizer.json` or `tokenizer.model` that differs from the one in the folder of a checkpoint.
fn check_tokenizer(weights: &Path, given: &Path) -> Result<(), DataError> {
    let expected = if contents::json::<Value>(given).is_ok() {
        weights.join(TOKENIZER_JSON)
    } else if given.extension().is_some_and(|end| end == "model") {
        weights.join(SENTENCEPIECE_MODEL)
    } else {
        // A `tok*.bin` was converted from another format, so it cannot be compared with the files of a checkpoint.
        return Ok(());
    };
    if !expected.is_file() {
        return Ok(());
    }
    let bytes = |path: &Path| read_limited(path, MAX_CONFIGURATION_BYTES).map_err(DataError::read(path));
    let (given_bytes, expected_bytes) = (bytes(given)?, bytes(&expected)?);
    // Versions of the tokenizers library write the same tokenizer differently.
    let same = given_bytes == expected_bytes
        || match (normal_form(&given_bytes), normal_form(&expected_bytes)) {
            (Some(given), Some(expected)) => given == expected,
            _ => false,
        };
    match same {
        true => Ok(()),
        false => Err(DataError::Configuration {
            path: expected,
            reason: format!(
                "it differs from `{}`\n  hint: pass the tokenizer in this folder with `--vocabulary`",
                given.display()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

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
                assert!(
                    check_vocabulary_of_checkpoint(weights, given).is_ok(),
                    "{}",
                    given.display()
                );
            }
            for given in [&differs, &others] {
                let error = check_vocabulary_of_checkpoint(weights, given)
                    .unwrap_err()
                    .to_string();
                assert!(error.contains("it differs from"), "{error}");
            }
        }
    }
}
