//! Maps labels to class numbers.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use mantissa_core::ClassCount;
use tokenizers::NormalizedString;

/// Classes that a checkpoint defines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownClasses {
    /// Number of rows of the output head; `None` without a head.
    pub count: Option<u32>,
    /// Class names by number (`id2label` of `config.json`).
    pub names: BTreeMap<u32, String>,
}

/// Mapping of labels to class numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberedLabels {
    /// Class number by label.
    pub numbers: BTreeMap<String, u32>,
    /// Number of classes.
    pub count: u32,
    /// Decisions that are reported to the user.
    pub notes: Vec<String>,
}

impl KnownClasses {
    /// Returns false for placeholder names (`LABEL_0`, `LABEL_1`, …).
    fn has_real_names(&self) -> bool {
        let is_filler = |(number, name): (&u32, &String)| name.to_lowercase() == format!("label_{number}");
        !self.names.is_empty() && !self.names.iter().all(is_filler)
    }

    /// Returns the number of classes: the rows of the output head, otherwise one more than the highest number in `names`.
    pub(super) fn count(&self) -> Option<u32> {
        self.count
            .or_else(|| self.names.keys().next_back().map(|last| last + 1))
    }

    /// Maps the `labels` of a data set to class numbers.
    ///
    /// The first rule that fits all labels applies:
    ///
    /// 1. Labels that are class names of the checkpoint map to these classes.
    /// 2. Integers that are class numbers of the checkpoint map to themselves, unless the class names make this ambiguous.
    /// 3. Labels are numbered in natural order (`9` before `10`, `class 9` before `class 10`, `negative` before `positive`). This requires
    ///    no checkpoint, or a checkpoint without class names and with as many classes as labels.
    ///
    /// # Errors
    /// A message that lists the labels and the classes of the checkpoint if the labels match none of these rules.
    pub(super) fn number(&self, labels: &BTreeSet<&str>) -> Result<NumberedLabels, String> {
        let mut notes = equivalent_labels(labels);
        notes.extend(missing_label(labels));
        let list = |labels: &mut dyn Iterator<Item = &str>| {
            let some: Vec<String> = labels.take(12).map(|label| format!("`{label}`")).collect();
            some.join(", ")
        };
        let in_order = |notes: Vec<String>| {
            let mut sorted: Vec<&str> = labels.iter().copied().collect();
            sorted.sort_by(|a, b| compare_natural(a, b));
            NumberedLabels {
                numbers: sorted.into_iter().map(str::to_owned).zip(0..).collect(),
                count: labels.len() as u32,
                notes,
            }
        };
        let Some(count) = self.count() else {
            return Ok(in_order(notes));
        };
        if self.count == Some(1) {
            return Err("the output head has one row, so the checkpoint is a regression model".to_owned());
        }
        if let Some((last, name)) = self.names.iter().next_back().filter(|(last, _)| **last >= count) {
            return Err(format!(
                "`id2label` has class {last} (`{name}`), but the output head has {count} classes"
            ));
        }
        if let Some(numbers) = self.by_name(labels) {
            return Ok(NumberedLabels {
                numbers,
                count,
                notes,
            });
        }
        let class_of = |label: &str| {
            let number = label.parse().ok().filter(|number| *number < count)?;
            (!self.has_real_names() || self.is_unambiguous(number)).then(|| (label.to_owned(), number))
        };
        let by_number: Option<BTreeMap<String, u32>> = labels.iter().map(|label| class_of(label)).collect();
        if let Some(numbers) = by_number {
            return Ok(NumberedLabels {
                numbers,
                count,
                notes,
            });
        }
        if labels.len() as u32 == count && !self.has_real_names() {
            let numbered = in_order(vec![]);
            let mut labels_by_number: Vec<_> = numbered
                .numbers
                .iter()
                .map(|(label, number)| (number, label))
                .collect();
            labels_by_number.sort();
            let assignments = labels_by_number
                .iter()
                .map(|(number, label)| format!("`{label}` is class {number}"));
            notes.push(format!(
                "the checkpoint has no class names, so labels are numbered in natural order: {}",
                assignments.collect::<Vec<_>>().join(", ")
            ));
            return Ok(NumberedLabels { notes, ..numbered });
        }
        let names = match self.has_real_names() {
            true => format!(
                "`id2label` has {}",
                list(&mut self.names.values().map(String::as_str))
            ),
            false => format!("the checkpoint has {count} classes without names"),
        };
        Err(format!(
            "the labels {} do not match the checkpoint: {names}\n  hint: use the class names of the checkpoint, or its class numbers from 0",
            list(&mut labels.iter().copied())
        ))
    }

    /// Returns true if the label `number` can only mean class `number`. The label is ambiguous if the name of another class contains this
    /// number (label `1` if class 0 is named `1 star`), or if class `number` has no name.
    fn is_unambiguous(&self, number: u32) -> bool {
        let in_name = |name: &str| split_integers(name).find_map(Result::ok);
        let is_other =
            |(class, name): (&u32, &String)| *class != number && in_name(name) == Some(number.into());
        self.names.contains_key(&number) && !self.names.iter().any(is_other)
    }

    /// Returns the number and name of every class. If neither the data nor the checkpoint names a class, its name is its number.
    pub(super) fn all_names(&self, count: u32, names_in_data: Vec<(u32, String)>) -> Vec<(u32, String)> {
        let names_in_data: BTreeMap<u32, String> = names_in_data.into_iter().collect();
        let name = |number: u32| {
            let name = names_in_data.get(&number).or_else(|| self.names.get(&number));
            (number, name.cloned().unwrap_or_else(|| number.to_string()))
        };
        (0..count).map(name).collect()
    }

    /// Maps labels like [`number`](Self::number). If `for_training` is true and the labels do not match the class names or the number of
    /// classes of the checkpoint, numbers the labels in natural order. The model then gets a new output head.
    pub(super) fn number_or_new(
        &self,
        labels: &BTreeSet<&str>,
        for_training: bool,
    ) -> Result<NumberedLabels, String> {
        let found = self.number(labels);
        if !for_training {
            return found;
        }
        let (count, data_count) = (self.count(), labels.len() as u32);
        let problem = match found {
            Ok(numbered) if count.is_none_or(|count| count == data_count) => return Ok(numbered),
            Ok(_) => format!(
                "the checkpoint has {} classes, but the data has {data_count}",
                count.unwrap_or_default()
            ),
            Err(problem) => problem.lines().next().unwrap_or_default().to_owned(),
        };
        let mut numbered = Self::default().number(labels)?;
        numbered
            .notes
            .push(format!("{problem}; labels are numbered in natural order"));
        Ok(numbered)
    }

    /// Maps labels by the class names of the checkpoint. Without an exact match, ignores case. Returns `None` if a label has no match, or
    /// no exact match and several that ignore case.
    fn by_name(&self, labels: &BTreeSet<&str>) -> Option<BTreeMap<String, u32>> {
        let find = |label: &str| {
            let exact = self.names.iter().find(|(_, name)| canonical(name) == label);
            exact.map(|(number, _)| *number).or_else(|| {
                let lower = label.to_lowercase();
                let mut same = self
                    .names
                    .iter()
                    .filter(|(_, name)| canonical(name).to_lowercase() == lower);
                match (same.next(), same.next()) {
                    (Some((number, _)), None) => Some(*number),
                    _ => None,
                }
            })
        };
        labels
            .iter()
            .map(|label| Some(((*label).to_owned(), find(label)?)))
            .collect()
    }
}

/// Counts the examples of each class in the training, validation and test part.
pub(super) fn count_classes(names: &[(u32, String)], parts: [&[u32]; 3]) -> Vec<ClassCount> {
    let count_in =
        |number: u32, labels: &[u32]| labels.iter().filter(|label| **label == number).count() as u64;
    let count = |(number, name): &(u32, String)| ClassCount {
        number: *number,
        name: name.clone(),
        examples: parts.map(|labels| count_in(*number, labels)),
    };
    names.iter().map(count).collect()
}

/// Normalizes a label: `1`, `01`, `1.0` and `1e0` are the same integer.
pub(super) fn canonical(label: &str) -> String {
    /// 2⁵³. Larger integers are not exact in f64.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    // In concatenated files, a label may begin with the byte order mark of its original file.
    let label = label.trim_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
    if let Ok(number) = label.parse::<i64>() {
        return number.to_string();
    }
    let begins = label.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    match label.parse::<f64>() {
        Ok(number) if begins && number.fract() == 0.0 && number.abs() < MAX_EXACT => {
            (number as i64).to_string()
        }
        _ => label.to_owned(),
    }
}

/// Reports labels that differ only in case, in Unicode normalization, or in notation of a boolean (`true` and `1`).
fn equivalent_labels(labels: &BTreeSet<&str>) -> Vec<String> {
    let mut same: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let normal = |label: &str| {
        let mut label = NormalizedString::from(label.to_lowercase());
        label.nfkc();
        match label.get() {
            "true" => "1".to_owned(),
            "false" => "0".to_owned(),
            label => label.to_owned(),
        }
    };
    for label in labels {
        same.entry(normal(label)).or_default().push(label);
    }
    let equivalent = same.into_values().filter(|labels| labels.len() > 1);
    equivalent
        .map(|labels| {
            format!(
                "the labels `{}` differ only in notation and are read as separate classes",
                labels.join("`, `")
            )
        })
        .collect()
}

/// Reports a label that usually marks examples without a label.
fn missing_label(labels: &BTreeSet<&str>) -> Option<String> {
    const MARKS: [&str; 7] = ["-1", "none", "null", "nan", "n/a", "unlabeled", "unlabelled"];
    let mut marks = labels
        .iter()
        .filter(|label| MARKS.contains(&label.to_lowercase().as_str()));
    marks
        .next()
        .map(|label| format!("the label `{label}` is read as a class, but may mark examples without a label"))
}

/// Compares labels in natural order: integers by value, also within names.
fn compare_natural(a: &str, b: &str) -> Ordering {
    if let (Ok(a), Ok(b)) = (a.parse::<i64>(), b.parse::<i64>()) {
        return a.cmp(&b);
    }
    let (mut left, mut right) = (split_integers(a), split_integers(b));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(Ok(a)), Some(Ok(b))) => a.cmp(&b),
            (Some(Ok(_)), Some(Err(_))) => Ordering::Less,
            (Some(Err(_)), Some(Ok(_))) => Ordering::Greater,
            (Some(Err(a)), Some(Err(b))) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Splits a text into integers and the text between them.
fn split_integers(text: &str) -> impl Iterator<Item = Result<u128, &str>> {
    let mut remaining = text;
    std::iter::from_fn(move || {
        let first = remaining.chars().next()?;
        let is_digit = |letter: char| letter.is_ascii_digit() == first.is_ascii_digit();
        let end = remaining
            .find(|letter| !is_digit(letter))
            .unwrap_or(remaining.len());
        let (part, after) = remaining.split_at(end);
        remaining = after;
        Some(part.parse().map_err(|_| part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(known: &KnownClasses, labels: &[&str]) -> Result<Vec<(String, u32)>, String> {
        let numbered = known.number(&labels.iter().copied().collect())?;
        let mut all: Vec<_> = numbered.numbers.into_iter().collect();
        all.sort_by_key(|(_, number)| *number);
        Ok(all)
    }

    fn names(labels: &[&str]) -> Vec<String> {
        let all = numbered(&KnownClasses::default(), labels).unwrap();
        all.into_iter().map(|(label, _)| label).collect()
    }

    fn known(count: u32, names: &[&str]) -> KnownClasses {
        KnownClasses {
            count: Some(count),
            names: (0..).zip(names.iter().map(|name| (*name).to_owned())).collect(),
        }
    }

    #[test]
    fn without_a_checkpoint_labels_are_numbered_in_natural_order() {
        assert_eq!(names(&["positive", "negative"]), ["negative", "positive"]);
        assert_eq!(names(&["10", "9", "-1"]), ["-1", "9", "10"]);
        assert_eq!(
            names(&["LABEL_10", "LABEL_9", "LABEL_1"]),
            ["LABEL_1", "LABEL_9", "LABEL_10"]
        );
        assert_eq!(
            names(&["class 2b", "class 2a", "class 10"]),
            ["class 2a", "class 2b", "class 10"]
        );
        assert_eq!(names(&["true", "false"]), ["false", "true"]);
        assert_eq!(names(&["b", "1", "a"]), ["1", "a", "b"]);
    }

    #[test]
    fn equivalent_integers_are_one_label() {
        for (text, same) in [
            ("1", "1"),
            (" 01 ", "1"),
            ("1.0", "1"),
            ("1e0", "1"),
            ("-0.0", "0"),
            ("10.0", "10"),
            ("1.5", "1.5"),
            ("inf", "inf"),
            ("nan", "nan"),
            ("Good", "Good"),
            ("1 star", "1 star"),
        ] {
            assert_eq!(canonical(text), same, "{text:?}");
        }
    }

    #[test]
    fn labels_match_names_and_numbers_of_a_checkpoint() {
        let moods = known(3, &["positive", "negative", "neutral"]);
        let number = |label: &str, number| (label.to_owned(), number);
        let all = numbered(&moods, &["neutral", "Negative", "positive"]).unwrap();
        assert_eq!(
            all,
            [number("positive", 0), number("Negative", 1), number("neutral", 2)]
        );
        // A data set need not contain all classes.
        assert_eq!(numbered(&moods, &["neutral"]).unwrap(), [number("neutral", 2)]);
        assert_eq!(
            numbered(&moods, &["0", "2"]).unwrap(),
            [number("0", 0), number("2", 2)]
        );
        for labels in [&["good", "bad"][..], &["0", "3"], &["positive", "mixed"]] {
            let error = numbered(&moods, labels).unwrap_err();
            assert!(
                error.contains("`id2label` has `positive`, `negative`, `neutral`"),
                "{error}"
            );
        }
    }

    #[test]
    fn ambiguous_integers_are_rejected() {
        let stars = known(5, &["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]);
        assert!(numbered(&stars, &["1", "4"]).is_err());
        let number = |label: &str, number| (label.to_owned(), number);
        assert_eq!(numbered(&stars, &["4 stars"]).unwrap(), [number("4 stars", 3)]);
        let grades = known(2, &["grade 0", "grade 1"]);
        assert_eq!(
            numbered(&grades, &["0", "1"]).unwrap(),
            [number("0", 0), number("1", 1)]
        );
        let holes = KnownClasses {
            count: Some(5),
            names: [
                (0, "bad".to_owned()),
                (2, "fair".to_owned()),
                (4, "good".to_owned()),
            ]
            .into(),
        };
        assert!(numbered(&holes, &["1", "3"]).is_err());
        assert_eq!(
            numbered(&holes, &["0", "4"]).unwrap(),
            [number("0", 0), number("4", 4)]
        );
        let floats = known(2, &["1.0", "0.0"]);
        assert_eq!(
            numbered(&floats, &["0", "1"]).unwrap(),
            [number("1", 0), number("0", 1)]
        );
        let filler = known(5, &["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4"]);
        let of_filler = [number("LABEL_0", 0), number("LABEL_4", 4)];
        assert_eq!(numbered(&filler, &["LABEL_0", "LABEL_4"]).unwrap(), of_filler);
        let beyond = KnownClasses {
            count: Some(2),
            names: [(0, "x".to_owned()), (7, "y".to_owned())].into(),
        };
        assert!(
            numbered(&beyond, &["x"])
                .unwrap_err()
                .contains("`id2label` has class 7")
        );
    }

    #[test]
    fn unnamed_classes_match_numbers_or_one_label_per_class() {
        let filler = known(2, &["LABEL_0", "LABEL_1"]);
        let numbered = filler.number(&["good", "bad"].into()).unwrap();
        assert_eq!(numbered.numbers["bad"], 0);
        assert!(
            numbered.notes[0].contains("`bad` is class 0, `good` is class 1"),
            "{:?}",
            numbered.notes
        );
        assert_eq!(filler.number(&["1", "2"].into()).unwrap().numbers["2"], 1);
        assert!(filler.number(&["0", "1"].into()).unwrap().notes.is_empty());
        assert!(
            filler
                .number(&["a", "b", "c"].into())
                .unwrap_err()
                .contains("2 classes without names")
        );
    }

    #[test]
    fn training_renumbers_classes_if_the_count_differs() {
        let moods = known(3, &["positive", "negative", "neutral"]);
        let number = |labels: &[&str], for_training| {
            moods.number_or_new(&labels.iter().copied().collect(), for_training)
        };
        let new = number(&["0", "2"], true).unwrap();
        assert_eq!((new.count, new.numbers["2"]), (2, 1));
        assert!(
            new.notes[0].contains("the checkpoint has 3 classes, but the data has 2"),
            "{:?}",
            new.notes
        );
        let unchanged = number(&["0", "2"], false).unwrap();
        assert_eq!((unchanged.count, unchanged.numbers["2"]), (3, 2));
        assert!(number(&["good", "bad"], false).is_err());
        assert_eq!(number(&["good", "bad"], true).unwrap().numbers["good"], 1);
        let all = number(&["neutral", "negative", "positive"], true).unwrap();
        assert_eq!((all.numbers["positive"], all.notes), (0, vec![]));
    }

    #[test]
    fn a_label_that_may_mark_missing_labels_is_reported() {
        let notes = |labels: &[&str]| {
            KnownClasses::default()
                .number(&labels.iter().copied().collect())
                .unwrap()
                .notes
        };
        assert!(notes(&["0", "1", "-1"])[0].contains("`-1` is read as a class"));
        assert!(notes(&["good", "None"])[0].contains("`None` is read as a class"));
        assert!(notes(&["0", "1", "-2"]).is_empty());
    }

    #[test]
    fn labels_that_differ_only_in_notation_are_reported() {
        let numbered = KnownClasses::default()
            .number(&["Positive", "positive", "bad"].into())
            .unwrap();
        assert_eq!(numbered.count, 3);
        assert!(
            numbered.notes[0].contains("`Positive`, `positive`"),
            "{:?}",
            numbered.notes
        );
        for labels in [["caf\u{e9}", "cafe\u{301}"], ["1", "true"], ["0", "FALSE"]] {
            let numbered = KnownClasses::default().number(&labels.into()).unwrap();
            assert_eq!(numbered.notes.len(), 1, "{labels:?}");
        }
    }
}
