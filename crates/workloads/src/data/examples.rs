//! Labelled text, and how the labels of files become class numbers.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

use super::{DataError, LineProblem, split::Given};

/// One labelled text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Class, from 0.
    pub label: u32,
    /// The text as it stands in the file.
    pub text: String,
}

/// Labelled text in the parts in which it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelledParts {
    /// The examples.
    pub given: Given<Example>,
    /// Number of classes.
    pub classes: u32,
}

/// The parts that files may belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Train,
    Validation,
    Test,
}

/// A row of a file, its label still a name.
#[derive(Debug)]
pub(super) struct Row {
    pub part: Part,
    pub label: String,
    pub text: String,
    pub file: Arc<Path>,
    pub line: u64,
}

impl Row {
    fn at(&self, problem: LineProblem) -> DataError {
        problem.at(&self.file, self.line)
    }

    /// A row whose label and text are there.
    pub fn new(part: Part, label: &str, text: &str, file: &Arc<Path>, line: u64) -> Result<Self, DataError> {
        /// Longer than any class name; texts in the place of labels are longer still.
        const LONGEST_LABEL: usize = 64;
        let label = label.trim();
        let row = Self {
            part,
            label: label.to_owned(),
            text: text.to_owned(),
            file: file.clone(),
            line,
        };
        match label.len() {
            0 => Err(row.at(LineProblem::EmptyLabel)),
            bytes if bytes > LONGEST_LABEL => Err(row.at(LineProblem::LongLabel { bytes })),
            _ if text.trim().is_empty() => Err(row.at(LineProblem::EmptyText)),
            _ => Ok(row),
        }
    }
}

/// Numbers the labels and sorts the rows into their parts. Classes are the labels of the training part: in the order
/// of their values if all are integers, else of their names (`negative` 0, `positive` 1).
pub(super) fn label(rows: Vec<Row>) -> Result<LabelledParts, DataError> {
    let known = known_labels(&rows)?;
    let has = |part| rows.iter().any(|row| row.part == part);
    let mut given = Given {
        train: vec![],
        validation: has(Part::Validation).then(Vec::new),
        test: has(Part::Test).then(Vec::new),
    };
    let numbers: HashMap<&str, u32> = known.iter().map(String::as_str).zip(0..).collect();
    for row in rows {
        let Some(&class) = numbers.get(row.label.as_str()) else {
            return Err(row.at(LineProblem::UnknownLabel {
                label: row.label.clone(),
                known,
            }));
        };
        let part = match row.part {
            Part::Train => Some(&mut given.train),
            Part::Validation => given.validation.as_mut(),
            Part::Test => given.test.as_mut(),
        };
        part.expect("made above").push(Example {
            label: class,
            text: row.text,
        });
    }
    Ok(LabelledParts {
        given,
        classes: known.len() as u32,
    })
}

fn known_labels(rows: &[Row]) -> Result<Vec<String>, DataError> {
    let train = || rows.iter().filter(|row| row.part == Part::Train);
    let names: BTreeSet<&str> = train().map(|row| row.label.as_str()).collect();
    let mut known: Vec<String> = names.into_iter().map(str::to_owned).collect();
    if let [label] = &known[..] {
        return Err(DataError::OneLabel {
            examples: train().count(),
            label: label.clone(),
        });
    }
    let values: Result<Vec<i64>, _> = known.iter().map(|label| label.parse()).collect();
    if values.is_ok() {
        known.sort_by_key(|label| label.parse::<i64>().expect("parsed above"));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(part: Part, label: &str, line: u64) -> Row {
        let file: Arc<Path> = Path::new("reviews.tsv").into();
        Row::new(part, label, "some text", &file, line).unwrap()
    }

    fn classes(labels: &[&str]) -> Vec<u32> {
        let rows = labels.iter().map(|label| row(Part::Train, label, 1)).collect();
        label(rows)
            .unwrap()
            .given
            .train
            .iter()
            .map(|example| example.label)
            .collect()
    }

    #[test]
    fn names_are_numbered_in_alphabetical_order() {
        assert_eq!(classes(&["positive", "negative", "positive"]), [1, 0, 1]);
        assert_eq!(classes(&["10", "9", "x"]), [0, 1, 2]);
    }

    #[test]
    fn integers_are_numbered_in_the_order_of_their_values() {
        assert_eq!(classes(&["10", "9", "-1", "9"]), [2, 1, 0, 1]);
    }

    #[test]
    fn a_label_that_training_lacks_is_an_error_with_file_and_line() {
        let rows = vec![
            row(Part::Train, "0", 1),
            row(Part::Train, "1", 2),
            row(Part::Test, "-1", 7),
        ];
        let error = label(rows).unwrap_err().to_string();
        assert_eq!(
            error,
            "reviews.tsv:7: unknown label `-1`\n  hint: the training part has `0`, `1`"
        );
    }

    #[test]
    fn a_training_part_with_one_label_is_refused() {
        let error = label(vec![row(Part::Train, "1", 1), row(Part::Train, "1", 2)]).unwrap_err();
        assert!(
            matches!(error, DataError::OneLabel { examples: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn empty_labels_and_texts_and_texts_in_the_place_of_labels_are_errors() {
        let file: Arc<Path> = Path::new("x.csv").into();
        let error = |label: &str, text| {
            Row::new(Part::Train, label, text, &file, 3)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(" ", "text"), "x.csv:3: empty label");
        assert_eq!(error("1", " \u{a0}"), "x.csv:3: empty text");
        assert!(error(&"word ".repeat(20), "1").starts_with("x.csv:3: a label of 99 bytes\n  hint: "));
    }
}
