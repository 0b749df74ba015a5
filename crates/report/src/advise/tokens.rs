//! Comparison of generated text with that of the baseline. A generation records only its first text.

use mantissa_core::{EventKind, Record};

use crate::{Row, setting::SettingResult};

/// Compares the leading tokens of the first text with those of the baseline, whose label is `base`. `None` for the baseline itself, and
/// if either setting recorded no text.
pub(crate) fn matching_tokens(candidate: &SettingResult<'_, '_>, base: &str) -> Option<String> {
    if candidate.is_baseline() {
        return None;
    }
    let (row, other) = candidate.pairs().next()?;
    let (mine, theirs) = (first_text(row)?, first_text(other)?);
    let all = mine.len().max(theirs.len());
    let matching = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let comparison = match matching {
        _ if matching == all => format!("all {all} tokens match {base}"),
        0 => format!("the first token already differs from {base}"),
        1 => format!("only the first of {all} tokens matches {base}"),
        _ => format!("the first {matching} of {all} tokens match {base}"),
    };
    Some(format!(
        "In its first generated text, {comparison}; one text does not measure quality."
    ))
}

/// Returns the tokens of the text from the first process that recorded one.
fn first_text<'a>(row: &Row<'a>) -> Option<Vec<&'a str>> {
    row.measured.iter().find_map(|(record, _)| tokens(record))
}

fn tokens(record: &Record) -> Option<Vec<&str>> {
    let text = record.events.iter().find(|event| event.kind == EventKind::Text)?;
    let tokens = text.detail.strip_prefix("token ids")?.split_whitespace();
    Some(tokens.collect()).filter(|tokens: &Vec<_>| !tokens.is_empty())
}
