//! Comparison of generated text with the baseline's, based on the only text that a generation records.

use mantissa_core::{EventKind, Record};

use super::candidate::Candidate;
use crate::Row;

/// Describes how many leading tokens of the first text equal the baseline's. `None` for the baseline itself, and if either setting wrote
/// no text.
pub(crate) fn alike(candidate: &Candidate<'_, '_>, base: &str) -> Option<String> {
    if candidate.is_baseline {
        return None;
    }
    let (row, other) = candidate.pairs().next()?;
    let (mine, theirs) = (text(row)?, text(other)?);
    let all = mine.len().max(theirs.len());
    let alike = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let told = match alike {
        _ if alike == all => format!("all {all} tokens are those"),
        0 => "not even the first token is that".to_owned(),
        1 => format!("the first of {all} tokens is that"),
        _ => format!("the first {alike} of {all} tokens are those"),
    };
    Some(format!(
        "Of the first text that it wrote {told} of {base}; one text is no measure of quality."
    ))
}

/// Returns the tokens of the first text from the first process that wrote one.
fn text<'a>(row: &Row<'a>) -> Option<Vec<&'a str>> {
    row.measured.iter().find_map(|(record, _)| tokens(record))
}

fn tokens(record: &Record) -> Option<Vec<&str>> {
    let said = record.events.iter().find(|event| event.kind == EventKind::Text)?;
    let tokens = said.detail.strip_prefix("token ids")?.split_whitespace();
    Some(tokens.collect()).filter(|tokens: &Vec<_>| !tokens.is_empty())
}
