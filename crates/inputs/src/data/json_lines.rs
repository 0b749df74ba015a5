//! Reads JSON Lines files: one object per line, with a text and optionally a label.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use serde_json::{Map, Value};

use super::{
    ColumnNames, DataError, LineProblem,
    column_names::{LABEL_COLUMNS, TEXT_COLUMNS, reject_ambiguous_columns, unused_columns_note},
    examples::{Part, Row},
    text_decoding::utf8,
};

/// JSON object of one line.
pub(super) struct Line(Map<String, Value>);

impl Line {
    /// Reads a line.
    pub fn read(line: &str) -> Result<Self, LineProblem> {
        serde_json::from_str(line)
            .map(Self)
            .map_err(|error| LineProblem::Json(error.to_string()))
    }

    /// Returns the text.
    pub fn text(&self, column: Option<&str>) -> Result<&str, LineProblem> {
        let text = self
            .value("text", column, &TEXT_COLUMNS)?
            .ok_or_else(|| self.missing("text"))?;
        text.as_str().ok_or_else(|| LineProblem::NoText(text.to_string()))
    }

    /// Returns the label: a string, a number or a boolean.
    pub fn label(&self, column: Option<&str>) -> Result<String, LineProblem> {
        let label = self
            .value("label", column, &LABEL_COLUMNS)?
            .ok_or_else(|| self.missing("label"))?;
        match label {
            Value::String(label) => Ok(label.clone()),
            Value::Number(label) => Ok(label.to_string()),
            Value::Bool(label) => Ok(label.to_string()),
            _ => Err(LineProblem::NoLabel(label.to_string())),
        }
    }

    /// Returns true if the object has a label field. Its value may be invalid.
    pub fn has_label(&self) -> bool {
        self.key(None, &LABEL_COLUMNS).is_some()
    }

    /// Returns the value of `column`, or of the first of `names` that occurs.
    fn value(
        &self,
        what: &'static str,
        column: Option<&str>,
        names: &[&str],
    ) -> Result<Option<&Value>, LineProblem> {
        if column.is_none() {
            reject_ambiguous_columns(what, self.0.keys().map(String::as_str), names)?;
        }
        Ok(self.key(column, names).and_then(|key| self.0.get(key)))
    }

    /// Returns the key `column`, or the first of `names` that occurs. Falls back to keys that differ only in case.
    pub fn key(&self, column: Option<&str>, names: &[&str]) -> Option<&String> {
        let find = |name: &str| {
            let exact = self.0.keys().find(|key| *key == name);
            exact.or_else(|| self.0.keys().find(|key| key.eq_ignore_ascii_case(name)))
        };
        match column {
            Some(column) => find(column),
            None => names.iter().find_map(|name| find(name)),
        }
    }

    /// Lists the keys that [`key`](Self::key) does not return.
    pub fn other_keys(&self, column: Option<&str>, names: &[&str]) -> Vec<String> {
        let read = self.key(column, names);
        let others = self.0.keys().filter(|key| Some(*key) != read);
        others.map(|key| format!("`{key}`")).collect()
    }

    fn missing(&self, what: &'static str) -> LineProblem {
        LineProblem::MissingColumn {
            what,
            columns: self.0.keys().cloned().collect(),
        }
    }
}

/// Checks that the label or the text has the same key in all lines.
pub(super) struct SameKeyCheck {
    what: &'static str,
    first: Option<String>,
}

impl SameKeyCheck {
    pub fn new(what: &'static str) -> Self {
        Self { what, first: None }
    }

    /// Returns an error if the key differs from that of an earlier line.
    pub fn check(&mut self, key: Option<&String>) -> Result<(), LineProblem> {
        match (&self.first, key) {
            (None, key) => self.first = key.cloned(),
            (Some(first), Some(key)) if first != key => {
                return Err(LineProblem::OtherKey {
                    what: self.what,
                    found: key.clone(),
                    expected: first.clone(),
                });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns true for the name of a JSON Lines file, which may be gzipped.
pub(super) fn has_json_lines_extension(name: &str) -> bool {
    let name = name.to_lowercase();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    [".jsonl", ".ndjson"].iter().any(|end| stem.ends_with(end))
}

/// Reads every row of a file and skips empty lines. Also returns a note on the keys that are not read, if there are any.
pub(super) fn rows(
    part: Part,
    columns: &ColumnNames,
    bytes: &[u8],
    file: &Path,
) -> Result<(Vec<Row>, Option<String>), DataError> {
    let text = utf8(bytes, file)?;
    let file: Arc<Path> = file.into();
    let mut rows = vec![];
    let (mut label_key, mut text_key) = (SameKeyCheck::new("label"), SameKeyCheck::new("text"));
    let mut unread: BTreeSet<String> = BTreeSet::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let at = |problem: LineProblem| problem.at(&file, number);
        let read = Line::read(line).map_err(at)?;
        let label = read.label(columns.label.as_deref()).map_err(at)?;
        let text = read.text(columns.text.as_deref()).map_err(at)?;
        label_key
            .check(read.key(columns.label.as_deref(), &LABEL_COLUMNS))
            .map_err(at)?;
        text_key
            .check(read.key(columns.text.as_deref(), &TEXT_COLUMNS))
            .map_err(at)?;
        rows.push(Row::new(part, &label, text, &file, number)?);
        let read_keys = [
            read.key(columns.label.as_deref(), &LABEL_COLUMNS),
            read.key(columns.text.as_deref(), &TEXT_COLUMNS),
        ];
        for key in read.0.keys().filter(|key| !read_keys.contains(&Some(*key))) {
            if !unread.contains(key) {
                unread.insert(key.clone());
            }
        }
    }
    if rows.is_empty() {
        return Err(LineProblem::NoRows.at(&file, 1));
    }
    Ok((
        rows,
        unused_columns_note(&file, unread.iter().map(|key| format!("`{key}`")).collect()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String, u64)>, String> {
        let rows = rows(
            Part::Train,
            &ColumnNames::default(),
            text.as_bytes(),
            Path::new("a.jsonl"),
        )
        .map_err(|e| e.to_string())?
        .0;
        Ok(rows
            .into_iter()
            .map(|row| (row.label, row.text, row.line))
            .collect())
    }

    #[test]
    fn all_lines_must_have_the_keys_of_the_first() {
        let first = "{\"text\": \"a\", \"stars\": 1}\n";
        for (line, message) in [
            (
                r#"{"text": "b", "label": 0, "stars": 1}"#,
                "the label has the key `label` in this line, but `stars`",
            ),
            (
                r#"{"body": "b", "stars": 1}"#,
                "the text has the key `body` in this line, but `text`",
            ),
        ] {
            let error = read(&format!("{first}{line}\n")).unwrap_err();
            assert!(
                error.starts_with("a.jsonl:2: ") && error.contains(message),
                "{error}"
            );
        }
    }

    #[test]
    fn every_line_becomes_a_row() {
        let lines = "{\"text\": \"bad\\nfilm\", \"label\": 0}\r\n\n{\"id\": 3, \"label\": \"1\", \"text\": \"good\"}\n";
        let row = |label: &str, text: &str, line| (label.to_owned(), text.to_owned(), line);
        assert_eq!(
            read(lines).unwrap(),
            [row("0", "bad\nfilm", 1), row("1", "good", 3)]
        );
    }

    #[test]
    fn errors_of_invalid_lines_contain_the_line_number() {
        let error = |line: &str| read(&format!("{{\"text\": \"a\", \"label\": 1}}\n{line}\n")).unwrap_err();
        assert!(error("{\"text\": \"a\"").starts_with("a.jsonl:2: not a JSON object: EOF"));
        assert!(error("[1]").starts_with("a.jsonl:2: not a JSON object: "));
        assert!(
            error("{\"label\": 1}")
                .starts_with("a.jsonl:2: no text column found; the columns are `label`\n  hint: ")
        );
        assert_eq!(
            error("{\"text\": 3, \"label\": 1}"),
            "a.jsonl:2: the text is 3, not a string"
        );
        assert!(
            error("{\"text\": \"a\"}")
                .starts_with("a.jsonl:2: no label column found; the columns are `text`")
        );
        for label in ["null", "[1]", "{}"] {
            let error = error(&format!("{{\"text\": \"a\", \"label\": {label}}}"));
            assert!(
                error.starts_with(&format!("a.jsonl:2: {label} is not a label")),
                "{error}"
            );
        }
        assert_eq!(error("{\"text\": \" \", \"label\": 1}"), "a.jsonl:2: empty text");
        assert!(read("\n").unwrap_err().starts_with("a.jsonl:1: no rows"));
    }

    #[test]
    fn several_keys_for_one_column_are_an_error() {
        let read = |line: &str| read(line).map(|rows| (rows[0].0.clone(), rows[0].1.clone()));
        let error = read(r#"{"text": "a", "sentiment": 1, "stars": 4}"#).unwrap_err();
        assert!(
            error
                .contains("several columns may be the label: `sentiment`, `stars`\n  hint: pass the one to read with `--label-column`"),
            "{error}"
        );
        let error = read(r#"{"review": "a", "body": "b", "label": 4}"#).unwrap_err();
        assert!(
            error.contains("several columns may be the text: `body`, `review`"),
            "{error}"
        );
        let row = read(r#"{"text": "a", "body": "b", "label": 4, "stars": 3}"#).unwrap();
        assert_eq!(row, ("4".to_owned(), "a".to_owned()));
    }

    #[test]
    fn json_lines_files_are_detected_by_name() {
        assert!(
            ["a.jsonl", "A.JSONL.GZ", "a.ndjson"]
                .into_iter()
                .all(has_json_lines_extension)
        );
        assert!(
            ["a.json", "jsonl", "a.jsonl.zip"]
                .into_iter()
                .all(|name| !has_json_lines_extension(name))
        );
    }
}
