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
    /// File name, for a file in a given folder with a path that starts at the folder; never an absolute path.
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

/// Describes the difference between the input files of two records. Returns `None` if they are equal or if one record
/// does not list them.
pub fn input_difference(one: &[InputFile], other: &[InputFile]) -> Option<String> {
    if one.is_empty() || other.is_empty() || one == other {
        return None;
    }
    let only = |of: &[InputFile], than: &[InputFile]| {
        let new: Vec<String> = of
            .iter()
            .filter(|file| !than.contains(file))
            .map(ToString::to_string)
            .collect();
        if new.is_empty() {
            "none".to_owned()
        } else {
            new.join(", ")
        }
    };
    Some(format!("{} against {}", only(one, other), only(other, one)))
}

/// Describes the difference between the input files of two records like [`input_difference`]. If it finds none, compares the
/// hashes of the data, which also covers synthetic data and records of earlier versions.
pub fn data_difference(
    one: (&[InputFile], Option<&DataSource>),
    other: (&[InputFile], Option<&DataSource>),
) -> Option<String> {
    input_difference(one.0, other.0).or_else(|| {
        let (one, other) = (one.1?, other.1?);
        let told = |source: &DataSource| format!("{} ({})", source.name, source.hash);
        (one.hash != other.hash).then(|| format!("{} against {}", told(one), told(other)))
    })
}
