//! Input files of a record, identified by content hash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DataSource, name::named};

named! {
    /// Role of an input file.
    pub enum InputRole ("role") {
        /// Data set.
        Data = "data",
        /// Checkpoint.
        Weights = "weights",
        /// Tokenizer or vocabulary.
        Vocabulary = "vocabulary",
        /// Configuration next to a checkpoint or tokenizer.
        Configuration = "configuration",
    }
}

/// Input file of a cell, or a folder with many files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// Role of the file.
    pub role: InputRole,
    /// File name; in a given folder, the path that begins with the name of that folder. Never an absolute path.
    pub name: String,
    /// First 16 hex digits of the BLAKE3 hash of the content; for a folder, of the names and hashes of its files.
    pub hash: String,
    /// Size in bytes; for a folder, of all files.
    pub bytes: u64,
    /// Number of files; 1 unless this is a folder.
    pub files: u64,
}

impl std::fmt::Display for InputFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} `{}` ({})", self.role, self.name, self.hash)
    }
}

impl InputFile {
    /// Returns the identity of the file: role, path below the given folder, and hash. The name of that folder, or of a file that was given
    /// directly, is not part of the identity.
    fn identity(&self) -> (InputRole, &str, &str) {
        let below = self.name.split_once('/').map_or("", |(_, below)| below);
        (self.role, below, &self.hash)
    }
}

/// Difference between the inputs of two records, described for each side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputDifference {
    /// Inputs that only the first record has.
    pub one: String,
    /// Inputs that only the second record has.
    pub other: String,
}

impl std::fmt::Display for InputDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} against {}", self.one, self.other)
    }
}

/// Compares the input files of two records. Returns `None` if they are equal or if one record does not list them, like the
/// records of earlier versions.
pub fn input_difference(one: Option<&[InputFile]>, other: Option<&[InputFile]>) -> Option<InputDifference> {
    let (one, other) = (one?, other?);
    let only_in = |files: &[InputFile], others: &[InputFile]| -> Vec<String> {
        let is_new = |file: &&InputFile| !others.iter().any(|other| other.identity() == file.identity());
        files.iter().filter(is_new).map(ToString::to_string).collect()
    };
    let (only_one, only_other) = (only_in(one, other), only_in(other, one));
    let list = |names: &[String]| match names {
        [] => "no other files".to_owned(),
        names => names.join(", "),
    };
    let differs = !only_one.is_empty() || !only_other.is_empty();
    differs.then(|| InputDifference {
        one: list(&only_one),
        other: list(&only_other),
    })
}

/// Compares the input files of two records like [`input_difference`]. If it finds no difference, compares the hashes of the
/// data, which also covers synthetic data and records of earlier versions.
pub fn data_difference(
    one: (Option<&[InputFile]>, Option<&DataSource>),
    other: (Option<&[InputFile]>, Option<&DataSource>),
) -> Option<InputDifference> {
    input_difference(one.0, other.0).or_else(|| {
        let (one, other) = (one.1?, other.1?);
        let description = |source: &DataSource| format!("{} ({})", source.name, source.hash);
        (one.hash != other.hash).then(|| InputDifference {
            one: description(one),
            other: description(other),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, hash: &str) -> InputFile {
        InputFile {
            role: InputRole::Data,
            name: name.into(),
            hash: hash.into(),
            bytes: 1,
            files: 1,
        }
    }

    fn difference(one: &[InputFile], other: &[InputFile]) -> Option<String> {
        input_difference(Some(one), Some(other)).map(|difference| difference.to_string())
    }

    #[test]
    fn files_are_compared_by_content_and_relative_path() {
        let data = [file("here/train.tsv", "a"), file("here/test.tsv", "b")];
        assert_eq!(difference(&data, &data), None);
        let moved = [file("there/train.tsv", "a"), file("there/test.tsv", "b")];
        assert_eq!(difference(&data, &moved), None);
        assert_eq!(difference(&[file("a.tsv", "a")], &[file("copy.tsv", "a")]), None);
        let swapped = [file("here/train.tsv", "b"), file("here/test.tsv", "a")];
        assert!(difference(&data, &swapped).is_some());
        let more = difference(&data, &data[..1]).unwrap();
        assert_eq!(more, "data `here/test.tsv` (b) against no other files");
        // An empty list differs from the absent list in records of earlier versions.
        assert!(difference(&data, &[]).is_some());
        assert_eq!(input_difference(Some(&data), None), None);
    }
}
