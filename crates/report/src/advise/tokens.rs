//! How far a text that a setting wrote is the baseline's: all that a generation records of what it wrote.

use mantissa_core::Record;

use super::candidate::Candidate;
use crate::Row;

/// How many of the first tokens of its first text are the baseline's, in a sentence; absent where either wrote none, and for the
/// baseline itself.
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

/// The tokens of the first text of its first process that wrote one.
fn text<'a>(row: &Row<'a>) -> Option<Vec<&'a str>> {
    row.measured.iter().find_map(|(record, _)| tokens(record))
}

fn tokens(record: &Record) -> Option<Vec<&str>> {
    let said = record.events.iter().find(|event| event.kind == "text")?;
    let tokens = said.detail.strip_prefix("token ids")?.split_whitespace();
    Some(tokens.collect()).filter(|tokens: &Vec<_>| !tokens.is_empty())
}
