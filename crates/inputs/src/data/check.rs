//! Reads a whole data set and summarizes it (`mantissa data check`).

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use mantissa_core::DatasetKind;
use serde::Serialize;

use super::{
    ColumnNames, DataError, Example, detect_kind, examples::Part, image_files, reviews::short_hash,
    source::Source, split::PredefinedSplits, text_files,
};

/// Summary of a data set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// Kind of the data.
    pub kind: DatasetKind,
    /// Names of the files, or name of the folder.
    pub name: String,
    /// Hash of the contents, the same as in recorded runs. `None` for images, because their hash depends on the size that they are scaled to.
    pub hash: Option<String>,
    /// Number of classes. 0 for running text, whose examples are documents.
    pub classes: u32,
    /// Parts of the data set.
    pub parts: Vec<CheckedPart>,
    /// Remarks about possible problems.
    pub remarks: Vec<String>,
}

/// Summary of a part of a data set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedPart {
    /// `training`, `validation` or `test`.
    pub name: &'static str,
    /// Number of examples.
    pub examples: usize,
    /// Number of examples of each class.
    pub classes: Vec<usize>,
    /// Sizes of the smallest, the median and the largest example.
    pub sizes: [u64; 3],
    /// Unit of the sizes: `words`, `characters`, or `pixels` along the shorter side.
    pub unit: &'static str,
    /// Number of examples that are equal to an earlier one in the same part.
    pub repeated: usize,
}

/// Summary of one example.
struct ExampleSummary {
    label: u32,
    size: u64,
    content: [u8; 32],
}

/// Reads every example at a path, of any kind.
///
/// # Errors
/// The first error in the data, with its file and line.
pub fn check(path: &Path, columns: &ColumnNames) -> Result<Checked, DataError> {
    let kind = detect_kind(path)?;
    let (name, hash, classes, unit, notes, splits) = match kind {
        DatasetKind::Images => {
            let (name, classes, notes, splits) = image_files::summarize(path)?;
            let summarize = |(label, size, content)| ExampleSummary { label, size, content };
            (
                name,
                None,
                classes,
                "pixels",
                notes,
                summarize_splits(splits, summarize),
            )
        }
        DatasetKind::Text => {
            let (corpus, documents) = text_files::summarize(path, columns)?;
            let mut splits = PredefinedSplits {
                train: vec![],
                validation: None,
                test: None,
            };
            for (part, size, content) in documents {
                let summary = ExampleSummary {
                    label: 0,
                    size,
                    content,
                };
                match part {
                    Part::Train => splits.train.push(summary),
                    Part::Validation => splits.validation.get_or_insert_default().push(summary),
                    Part::Test => splits.test.get_or_insert_default().push(summary),
                }
            }
            let hash = short_hash(corpus.hash()?);
            (corpus.name, Some(hash), 0, "characters", corpus.notes, splits)
        }
        _ => {
            let source = Source::read(path)?;
            let parts = source.parse(columns, None, true)?;
            let summarize = |example: Example| ExampleSummary {
                label: example.label,
                size: example.text.split_whitespace().count() as u64,
                content: *blake3::hash(example.text.as_bytes()).as_bytes(),
            };
            let hash = source.hash(columns).to_hex()[..16].to_owned();
            (
                source.name.clone(),
                Some(hash),
                parts.classes,
                "words",
                parts.notes,
                summarize_splits(parts.splits, summarize),
            )
        }
    };
    let named = [
        ("training", Some(splits.train)),
        ("validation", splits.validation),
        ("test", splits.test),
    ];
    let named: Vec<(&'static str, Vec<ExampleSummary>)> = named
        .into_iter()
        .filter_map(|(name, part)| Some((name, part.filter(|part| !part.is_empty())?)))
        .collect();
    Ok(Checked {
        kind,
        name,
        hash,
        classes,
        remarks: notes.into_iter().chain(remarks(&named, classes)).collect(),
        parts: named
            .iter()
            .map(|(name, part)| summarize_part(name, part, classes, unit))
            .collect(),
    })
}

/// Summarizes every example of every part.
fn summarize_splits<T>(
    splits: PredefinedSplits<T>,
    summarize: impl Fn(T) -> ExampleSummary,
) -> PredefinedSplits<ExampleSummary> {
    let all = |part: Vec<T>| part.into_iter().map(&summarize).collect();
    PredefinedSplits {
        train: all(splits.train),
        validation: splits.validation.map(all),
        test: splits.test.map(all),
    }
}

fn summarize_part(
    name: &'static str,
    part: &[ExampleSummary],
    classes: u32,
    unit: &'static str,
) -> CheckedPart {
    let mut sizes: Vec<u64> = part.iter().map(|example| example.size).collect();
    sizes.sort_unstable();
    let mut counts = vec![0; classes as usize];
    let mut occurrences: HashMap<[u8; 32], usize> = HashMap::new();
    for example in part {
        counts
            .get_mut(example.label as usize)
            .into_iter()
            .for_each(|count| *count += 1);
        *occurrences.entry(example.content).or_default() += 1;
    }
    CheckedPart {
        name,
        examples: part.len(),
        classes: counts,
        sizes: [0, sizes.len() / 2, sizes.len() - 1].map(|rank| sizes[rank]),
        unit,
        repeated: part.len() - occurrences.len(),
    }
}

/// Returns remarks on test examples that are also training examples, equal examples with different labels, and absent classes.
fn remarks(parts: &[(&'static str, Vec<ExampleSummary>)], classes: u32) -> Vec<String> {
    let mut remarks = vec![];
    let part_named = |wanted: &str| {
        parts
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, part)| part)
    };
    if let (Some(train), Some(test)) = (part_named("training"), part_named("test")) {
        let training_examples: HashMap<[u8; 32], u32> = train
            .iter()
            .map(|example| (example.content, example.label))
            .collect();
        let shared = test
            .iter()
            .filter(|example| training_examples.contains_key(&example.content))
            .count();
        if shared > 0 {
            remarks.push(format!("{shared} test examples are also training examples"));
        }
    }
    let mut labels: BTreeMap<[u8; 32], u32> = BTreeMap::new();
    let all = parts.iter().flat_map(|(_, part)| part);
    let conflicting = all
        .filter(|example| *labels.entry(example.content).or_insert(example.label) != example.label)
        .count();
    if conflicting > 0 {
        remarks.push(format!(
            "{conflicting} examples are equal to an example with another label"
        ));
    }
    for (name, part) in parts {
        let present: std::collections::BTreeSet<u32> = part.iter().map(|example| example.label).collect();
        let absent = (classes as usize).saturating_sub(present.len());
        if absent > 0 {
            remarks.push(format!(
                "{absent} of {classes} classes do not occur in the {name} part"
            ));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn labelled_texts_are_counted_and_anomalies_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let train = "0\tbad\n1\tgood film\n1\tgood film\n0\tgood film\n";
        fs::write(folder.path().join("train.tsv"), train).unwrap();
        fs::write(folder.path().join("test.tsv"), "1\tgood film\n1\ta b c\n").unwrap();
        let checked = check(folder.path(), &ColumnNames::default()).unwrap();
        assert_eq!((checked.kind, checked.classes), (DatasetKind::Reviews, 2));
        let part = |name, examples, classes: [usize; 2], sizes, repeated| CheckedPart {
            name,
            examples,
            classes: classes.to_vec(),
            sizes,
            unit: "words",
            repeated,
        };
        assert_eq!(
            checked.parts,
            [
                part("training", 4, [2, 2], [1, 2, 2], 2),
                part("test", 2, [0, 2], [2, 3, 3], 0)
            ]
        );
        assert_eq!(
            checked.remarks,
            [
                "1 test examples are also training examples",
                "1 examples are equal to an example with another label",
                "1 of 2 classes do not occur in the test part",
            ]
        );
        fs::write(folder.path().join("test.tsv"), "7\tanother\n").unwrap();
        assert!(
            check(folder.path(), &ColumnNames::default())
                .unwrap_err()
                .to_string()
                .contains("unknown label `7`")
        );
    }

    #[test]
    fn documents_and_characters_of_running_text_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mark = "<|endoftext|>";
        let train = format!("One café.\n{mark}\n\nAnother. \n{mark}{mark}One café.");
        fs::write(folder.path().join("train.txt"), train).unwrap();
        fs::write(folder.path().join("test.jsonl"), "{\"text\": \"Another.\"}\n").unwrap();
        let checked = check(folder.path(), &ColumnNames::default()).unwrap();
        assert_eq!((checked.kind, checked.classes), (DatasetKind::Text, 0));
        assert_eq!(checked.name, "train.txt, test.jsonl");
        let part = |name, examples, sizes, repeated| CheckedPart {
            name,
            examples,
            classes: vec![],
            sizes,
            unit: "characters",
            repeated,
        };
        assert_eq!(
            checked.parts,
            [part("training", 3, [8, 9, 9], 1), part("test", 1, [8, 8, 8], 0)]
        );
        assert_eq!(checked.remarks, ["1 test examples are also training examples"]);
    }

    #[test]
    fn counts_of_real_data_match_the_published_ones() {
        let counts = |name: &str| {
            let path = mantissa_testing::real_data(name)?;
            let checked = check(&path, &ColumnNames::default()).unwrap();
            Some(
                checked
                    .parts
                    .into_iter()
                    .map(|part| (part.classes, part.repeated))
                    .collect::<Vec<_>>(),
            )
        };
        if let Some(imdb) = counts("imdb") {
            let classes: Vec<_> = imdb.iter().map(|(classes, _)| classes.clone()).collect();
            assert_eq!(classes, [[12_500, 12_500], [12_500, 12_500]]);
            assert!(
                imdb.iter().all(|(_, repeated)| *repeated > 0),
                "IMDb has duplicate reviews"
            );
        }
        if let Some(sst2) = counts("sst2") {
            let examples: Vec<usize> = sst2.iter().map(|(classes, _)| classes.iter().sum()).collect();
            assert_eq!(examples, [67_349, 872, 1_821]);
        }
        if let Some(cifar) = counts("images/cifar10_lossless4000/cifar10_first4000_train.bin") {
            assert_eq!(cifar[0].0.iter().sum::<usize>(), 4000);
            assert_eq!((cifar[0].0.len(), cifar[0].1), (10, 0));
        }
    }
}
