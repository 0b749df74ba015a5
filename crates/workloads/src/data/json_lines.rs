//! JSON lines: an object a line, with a text, and with a label where texts have one.

use std::{path::Path, sync::Arc};

use serde_json::{Map, Value};

use super::{
    DataError, LineProblem,
    delimited::{LABEL_COLUMNS, TEXT_COLUMNS},
    examples::{Part, Row},
    source::utf8,
};

/// An object of a file.
pub(super) struct Line(Map<String, Value>);

impl Line {
    /// Reads a line.
    pub fn read(line: &str) -> Result<Self, LineProblem> {
        serde_json::from_str(line)
            .map(Self)
            .map_err(|error| LineProblem::Json(error.to_string()))
    }

    /// Its text.
    pub fn text(&self) -> Result<&str, LineProblem> {
        let text = self.first(&TEXT_COLUMNS);
        text.and_then(Value::as_str).ok_or(LineProblem::MissingColumn {
            what: "text",
            hint: "every line is a JSON object whose `text` is a string",
        })
    }

    /// Its label, a string or a whole number.
    pub fn label(&self) -> Option<String> {
        match self.first(&LABEL_COLUMNS)? {
            Value::String(label) => Some(label.clone()),
            Value::Number(label) if !label.is_f64() => Some(label.to_string()),
            _ => None,
        }
    }

    fn first(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.0.get(*name))
    }
}

/// Whether a file's name is that of JSON lines.
pub(super) fn are_in(name: &str) -> bool {
    let name = name.to_lowercase();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    [".jsonl", ".ndjson"].iter().any(|end| stem.ends_with(end))
}

/// Every row of a file; empty lines are none.
pub(super) fn rows(part: Part, bytes: &[u8], file: &Path) -> Result<Vec<Row>, DataError> {
    let text = utf8(bytes, file)?;
    let file: Arc<Path> = file.into();
    let mut rows = vec![];
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let at = |problem: LineProblem| problem.at(&file, number);
        let read = Line::read(line).map_err(at)?;
        let label = read.label().ok_or_else(|| {
            at(LineProblem::MissingColumn {
                what: "label",
                hint: "every line is a JSON object whose `label` is a string or a whole number",
            })
        })?;
        rows.push(Row::new(part, &label, read.text().map_err(at)?, &file, number)?);
    }
    if rows.is_empty() {
        return Err(LineProblem::NoRows.at(&file, 1));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String, u64)>, String> {
        let rows = rows(Part::Train, text.as_bytes(), Path::new("a.jsonl")).map_err(|e| e.to_string())?;
        Ok(rows
            .into_iter()
            .map(|row| (row.label, row.text, row.line))
            .collect())
    }

    #[test]
    fn every_line_is_a_row_with_its_label_and_its_text() {
        let lines = "{\"text\": \"bad\\nfilm\", \"label\": 0}\r\n\n{\"id\": 3, \"sentiment\": \"1\", \"review\": \"good\"}\n";
        let row = |label: &str, text: &str, line| (label.to_owned(), text.to_owned(), line);
        assert_eq!(
            read(lines).unwrap(),
            [row("0", "bad\nfilm", 1), row("1", "good", 3)]
        );
    }

    #[test]
    fn lines_that_are_no_rows_are_errors_with_their_numbers() {
        let error = |line: &str| read(&format!("{{\"text\": \"a\", \"label\": 1}}\n{line}\n")).unwrap_err();
        assert!(error("{\"text\": \"a\"").starts_with("a.jsonl:2: no JSON object: EOF"));
        assert!(error("[1]").starts_with("a.jsonl:2: no JSON object: "));
        assert!(error("{\"label\": 1}").starts_with("a.jsonl:2: no column for the text\n  hint: "));
        assert!(error("{\"text\": 3, \"label\": 1}").starts_with("a.jsonl:2: no column for the text"));
        for label in ["", ", \"label\": 1.5", ", \"label\": null", ", \"label\": [1]"] {
            let error = error(&format!("{{\"text\": \"a\"{label}}}"));
            assert!(error.starts_with("a.jsonl:2: no column for the label"), "{error}");
        }
        assert_eq!(error("{\"text\": \" \", \"label\": 1}"), "a.jsonl:2: empty text");
        assert!(read("\n").unwrap_err().starts_with("a.jsonl:1: no rows"));
    }

    #[test]
    fn names_tell_json_lines() {
        assert!(["a.jsonl", "A.JSONL.GZ", "a.ndjson"].into_iter().all(are_in));
        assert!(
            ["a.json", "jsonl", "a.jsonl.zip"]
                .into_iter()
                .all(|name| !are_in(name))
        );
    }
}
