//! Names of the label and text columns of delimited files, which are also the keys of JSON lines.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::LineProblem;

/// Column names and JSON keys of the label, in lower case and in order of preference.
pub(super) const LABEL_COLUMNS: [&str; 10] = [
    "label",
    "sentiment",
    "labels",
    "class",
    "class index",
    "category",
    "polarity",
    "target",
    "stars",
    "v1",
];
/// Column names and JSON keys of the text, in lower case and in order of preference.
pub(super) const TEXT_COLUMNS: [&str; 11] = [
    "text",
    "sentence",
    "review",
    "content",
    "tweet",
    "message",
    "comment",
    "body",
    "description",
    "document",
    "v2",
];

/// Column names and JSON keys of a second text, in lower case. A row with such a column is a pair of texts.
const PAIR_COLUMNS: [&str; 7] = [
    "text_pair",
    "text_b",
    "text2",
    "sentence2",
    "sentence_b",
    "question2",
    "hypothesis",
];

/// Column names from the command line. The hash of a data set contains the `Debug` output, so the names of this struct and its fields
/// must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnNames {
    /// Column of the label: a name in the header line, a JSON key, or a column number from 1.
    pub label: Option<String>,
    /// Column of the text, in the same notation.
    pub text: Option<String>,
}

/// Rejects a header in which several columns may be the label or the text. The first of `names` (`label` or `text`) takes precedence over the
/// others, unless the header also has a column for a second text.
pub(super) fn reject_ambiguous_columns<'a>(
    what: &'static str,
    header: impl Iterator<Item = &'a str>,
    names: &[&str],
) -> Result<(), LineProblem> {
    let is_one_of =
        |field: &str, names: &[&str]| names.iter().any(|name| field.trim().eq_ignore_ascii_case(name));
    let pairs: &[&str] = if what == "text" { &PAIR_COLUMNS } else { &[] };
    let candidates: Vec<&str> = header
        .filter(|field| is_one_of(field, names) || is_one_of(field, pairs))
        .collect();
    let is_pair = candidates.iter().any(|field| is_one_of(field, pairs));
    let first_wins = !is_pair && candidates.iter().any(|field| is_one_of(field, &names[..1]));
    match candidates.len() {
        0 | 1 => Ok(()),
        _ if first_wins => Ok(()),
        _ => Err(LineProblem::SeveralColumns {
            what,
            columns: candidates
                .into_iter()
                .map(|name| name.trim().to_owned())
                .collect(),
        }),
    }
}

/// Returns a note on the unused columns of a file, or `None` if `names` is empty.
pub(super) fn unused_columns_note(file: &Path, names: Vec<String>) -> Option<String> {
    /// Maximum number of names listed.
    const MAX_LISTED: usize = 12;
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let more = match names.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = names
        .iter()
        .take(MAX_LISTED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    (!names.is_empty()).then(|| format!("unused columns of `{file}`: {listed}{more}"))
}
