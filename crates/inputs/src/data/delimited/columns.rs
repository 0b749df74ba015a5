//! Positions of the label and the text in the rows of a delimited file.

use std::path::Path;

use super::header::{begins_with_header, column_named, is_header, is_number, looks_like_header};
use crate::data::{
    ColumnNames, LineProblem,
    column_names::{LABEL_COLUMNS, TEXT_COLUMNS, reject_ambiguous_columns, unused_columns_note},
};

/// Positions of the label and the text in a row.
#[derive(Debug, PartialEq)]
pub(super) struct Columns {
    pub label: usize,
    /// Columns whose fields are joined with spaces.
    pub text: Vec<usize>,
    pub count: usize,
}

impl Columns {
    /// Returns the name of the label or text column if another column has the same name.
    pub fn ambiguous(&self, names: &[&str]) -> Option<String> {
        let read = self.text.iter().chain([&self.label]);
        let mut names = read.map(|column| names[*column].trim()).filter(|name| {
            names
                .iter()
                .filter(|other| other.trim().eq_ignore_ascii_case(name))
                .count()
                > 1
        });
        names.next().map(str::to_owned)
    }

    /// Describes the unused columns, by their names in `header` or by their numbers.
    pub fn unused(&self, header: Option<&[&str]>, file: &Path) -> Option<String> {
        let others = (0..self.count).filter(|column| *column != self.label && !self.text.contains(column));
        let names: Vec<String> = others
            .map(|column| {
                match header
                    .map(|names| names[column].trim())
                    .filter(|name| !name.is_empty())
                {
                    Some(name) => format!("`{name}`"),
                    None => (column + 1).to_string(),
                }
            })
            .collect();
        unused_columns_note(file, names)
    }
}

/// Detects the columns from the first record, which is also the first of `sample`. The returned flag is true if the first record is a header.
pub(super) fn detect_columns(
    first: &[&str],
    sample: &[Vec<String>],
    names: &ColumnNames,
) -> Result<(Columns, bool), LineProblem> {
    let count = first.len();
    let missing = |what| LineProblem::MissingColumn {
        what,
        columns: first.iter().map(|field| field.trim().to_owned()).collect(),
    };
    let chosen_column = |name: &Option<String>, what| match name {
        None => Ok(None),
        Some(name) => match (column_named(first, &[name]), name.parse::<usize>()) {
            (Some(column), _) => Ok(Some((column, true))),
            (None, Ok(number)) if (1..=count).contains(&number) => Ok(Some((number - 1, false))),
            _ => Err(missing(what)),
        },
    };
    let (label, text) = (
        chosen_column(&names.label, "label")?,
        chosen_column(&names.text, "text")?,
    );
    if let (Some((label, by_name)), Some((text, also_by_name))) = (label, text) {
        let is_header = by_name || also_by_name || is_header(sample, label)?;
        let text = vec![text];
        return Ok((Columns { label, text, count }, is_header));
    }
    let known_label = label
        .map(|(column, _)| column)
        .or_else(|| column_named(first, &LABEL_COLUMNS));
    let known_text = text
        .map(|(column, _)| column)
        .or_else(|| column_named(first, &TEXT_COLUMNS));
    if known_label.is_some() && known_text.is_some() {
        let fields = || first.iter().copied();
        if label.is_none() {
            reject_ambiguous_columns("label", fields(), &LABEL_COLUMNS)?;
        }
        if text.is_none() {
            reject_ambiguous_columns("text", fields(), &TEXT_COLUMNS)?;
        }
    }
    match (known_label, known_text) {
        (Some(label), Some(text)) => {
            // AG News stores the headline in the column `title`. Read it together with the `description` as one text.
            let title = column_named(first, &["title"])
                .filter(|_| column_named(first, &["description"]) == Some(text));
            let text = title.into_iter().chain([text]).collect();
            Ok((Columns { label, text, count }, true))
        }
        (Some(column), None) if label.is_none() || begins_with_header(sample, column) => Err(missing("text")),
        (None, Some(_)) if text.is_none() && !first.iter().any(|field| is_number(field)) => {
            Err(missing("label"))
        }
        (None, Some(_)) if text.is_some_and(|(_, by_name)| by_name) => Err(missing("label")),
        _ if count < 2 => Err(missing("text")),
        // One of the columns is given by its number, and there is no header.
        _ if label.is_some() || text.is_some() => {
            let chosen = label.or(text).map_or(0, |(column, _)| column);
            let mut others = (0..count).filter(|column| *column != chosen);
            let other = match label {
                Some(_) => others.next_back(),
                None => others.next(),
            };
            let other = other.expect("there are at least two columns");
            let (label, text) = if label.is_some() {
                (chosen, other)
            } else {
                (other, chosen)
            };
            Ok((
                Columns {
                    label,
                    text: vec![text],
                    count,
                },
                false,
            ))
        }
        _ if begins_with_header(sample, 0) || looks_like_header(sample, 0) => Err(missing("label")),
        _ => Ok((
            Columns {
                label: 0,
                text: vec![count - 1],
                count,
            },
            false,
        )),
    }
}
