//! Labelled text, and the mapping of its labels to class numbers.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use super::{
    DataError, KnownClasses, LineProblem,
    classes::{NumberedLabels, canonical},
    split::PredefinedSplits,
};

/// One labelled text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Class, from 0.
    pub label: u32,
    /// Text as in the file.
    pub text: String,
}

/// Labelled texts in the parts that the data set defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelledParts {
    /// The examples.
    pub splits: PredefinedSplits<Example>,
    /// Number of classes.
    pub classes: u32,
    /// Numbers and names of the classes that occur, sorted by number.
    pub names: Vec<(u32, String)>,
    /// Skipped files and other decisions that are reported to the user.
    pub notes: Vec<String>,
}

/// Part of a data set. The hash of a data set contains the `Debug` output, so the names of the variants must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Train,
    Validation,
    Test,
}

/// Row of a file whose label is not numbered yet.
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

    /// Creates a row. Rejects an empty label or text.
    pub fn new(part: Part, label: &str, text: &str, file: &Arc<Path>, line: u64) -> Result<Self, DataError> {
        /// Maximum label length in bytes. It is longer than any class name, and shorter than most texts, so that a text in the label column is
        /// detected.
        const MAX_LABEL_BYTES: usize = 64;
        let label = canonical(label);
        let row = Self {
            part,
            label: label.clone(),
            text: text.to_owned(),
            file: file.clone(),
            line,
        };
        match label.len() {
            0 => Err(row.at(LineProblem::EmptyLabel)),
            _ if marks_missing_label(&label) => Err(row.at(LineProblem::NoLabel(label))),
            bytes if bytes > MAX_LABEL_BYTES => Err(row.at(LineProblem::LongLabel { bytes })),
            _ if text.trim().is_empty() => Err(row.at(LineProblem::EmptyText)),
            _ => Ok(row),
        }
    }
}

/// Minimum number of rows for the check that labels occur at least twice on average. Rarer labels are probably texts or ids.
const MIN_ROWS_FOR_LABEL_CHECK: usize = 10;

/// Returns true for markers of a missing label. `none` is not one of them, because it may be a class.
fn marks_missing_label(label: &str) -> bool {
    const MARKS: [&str; 5] = ["nan", "<na>", "n/a", "#n/a", "null"];
    MARKS.iter().any(|mark| label.eq_ignore_ascii_case(mark))
}

/// Maps labels to class numbers and groups the rows by part.
///
/// If `for_training` is true or there is no checkpoint, the labels of the training part define the classes. If there is no training part, the
/// labels of all rows define them. In all other cases, the checkpoint defines the classes, and every label must match one of them.
pub(super) fn number_labels(
    rows: Vec<Row>,
    known: Option<&KnownClasses>,
    for_training: bool,
) -> Result<LabelledParts, DataError> {
    let has = |part| rows.iter().any(|row| row.part == part);
    let only_training = has(Part::Train) && (known.is_none() || for_training);
    let defining_rows = || {
        rows.iter()
            .filter(|row| !only_training || row.part == Part::Train)
    };
    let labels: BTreeSet<&str> = defining_rows().map(|row| row.label.as_str()).collect();
    if (known.is_none() || for_training)
        && let [label] = labels.iter().collect::<Vec<_>>()[..]
    {
        return Err(DataError::OneLabel {
            examples: defining_rows().count(),
            label: (*label).to_owned(),
        });
    }
    let row_count = defining_rows().count();
    if (known.is_none() || for_training)
        && row_count >= MIN_ROWS_FOR_LABEL_CHECK
        && 2 * labels.len() > row_count
    {
        return Err(DataError::Labels(format!(
            "the data has {} labels for {row_count} texts, such as `{}`\n  \
             hint: pass the correct columns with `--label-column` and `--text-column`",
            labels.len(),
            labels.first().copied().unwrap_or_default()
        )));
    }
    let numbered = known
        .unwrap_or(&KnownClasses::default())
        .number_or_new(&labels, for_training);
    let NumberedLabels {
        numbers,
        count,
        notes,
    } = numbered.map_err(DataError::Labels)?;
    let mut names: Vec<(u32, String)> = numbers
        .iter()
        .map(|(name, number)| (*number, name.clone()))
        .collect();
    names.sort();
    let mut splits = PredefinedSplits {
        train: vec![],
        validation: has(Part::Validation).then(Vec::new),
        test: has(Part::Test).then(Vec::new),
    };
    for row in rows {
        let Some(&class) = numbers.get(row.label.as_str()) else {
            return Err(row.at(LineProblem::UnknownLabel {
                label: row.label.clone(),
                known: names.into_iter().map(|(_, name)| name).collect(),
            }));
        };
        let part = match row.part {
            Part::Train => Some(&mut splits.train),
            Part::Validation => splits.validation.as_mut(),
            Part::Test => splits.test.as_mut(),
        };
        part.expect("the part has rows").push(Example {
            label: class,
            text: row.text,
        });
    }
    Ok(LabelledParts {
        splits,
        classes: count,
        names,
        notes,
    })
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
        number_labels(rows, None, true)
            .unwrap()
            .splits
            .train
            .iter()
            .map(|example| example.label)
            .collect()
    }

    #[test]
    fn names_are_numbered_in_natural_order() {
        assert_eq!(classes(&["positive", "negative", "positive"]), [1, 0, 1]);
        assert_eq!(classes(&["10", "9", "x"]), [1, 0, 2]);
    }

    #[test]
    fn integers_are_numbered_by_value() {
        assert_eq!(classes(&["10", "9", "-1", "9"]), [2, 1, 0, 1]);
    }

    #[test]
    fn unknown_label_error_has_file_and_line() {
        let rows = vec![
            row(Part::Train, "0", 1),
            row(Part::Train, "1", 2),
            row(Part::Test, "-1", 7),
        ];
        let error = number_labels(rows, None, true).unwrap_err().to_string();
        assert_eq!(
            error,
            "reviews.tsv:7: unknown label `-1`\n  hint: the training part has `0`, `1`"
        );
    }

    #[test]
    fn unique_labels_and_missing_label_markers_are_rejected() {
        let names: Vec<String> = (0..12).map(|number| format!("text {number}")).collect();
        let rows = names
            .iter()
            .zip(1..)
            .map(|(name, line)| row(Part::Train, name, line))
            .collect();
        let error = number_labels(rows, None, true).unwrap_err().to_string();
        assert!(error.contains("12 labels for 12 texts"), "{error}");
        for mark in ["NaN", "<NA>", "null"] {
            let file: Arc<Path> = Path::new("reviews.tsv").into();
            let error = Row::new(Part::Train, mark, "some text", &file, 3)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("reviews.tsv:3: {mark} is not a label")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_training_part_with_one_label_is_rejected() {
        let error = number_labels(
            vec![row(Part::Train, "1", 1), row(Part::Train, "1", 2)],
            None,
            true,
        )
        .unwrap_err();
        assert!(
            matches!(error, DataError::OneLabel { examples: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn empty_labels_empty_texts_and_long_labels_are_errors() {
        let file: Arc<Path> = Path::new("x.csv").into();
        let error = |label: &str, text| {
            Row::new(Part::Train, label, text, &file, 3)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(" ", "text"), "x.csv:3: empty label");
        assert_eq!(error("1", " \u{a0}"), "x.csv:3: empty text");
        assert!(error(&"word ".repeat(20), "1").starts_with("x.csv:3: the label is 99 bytes long\n  hint: "));
    }
}
