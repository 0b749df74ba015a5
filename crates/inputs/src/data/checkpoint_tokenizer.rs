//! Checks that a vocabulary is the one of a checkpoint.

use std::path::Path;

use mantissa_core::{LARGEST_CONFIGURATION, read_limited};
use serde_json::Value;

use super::{
    DataError,
    casing::Casing,
    subwords::normal_form,
    tokenizer_files::{CONFIG, SENTENCEPIECE, TOKENIZER},
    vocabulary::{Vocabulary, has_special},
};
use crate::contents;

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
                assert!(check_folder(weights, given).is_ok(), "{}", given.display());
            }
            for given in [&differs, &others] {
                let error = check_folder(weights, given).unwrap_err().to_string();
                assert!(error.contains("it differs from"), "{error}");
            }
        }
    }
}
