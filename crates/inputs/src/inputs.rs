//! Paths given on the command line.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mantissa_core::DatasetKind;

use crate::data::ColumnNames;

/// Paths of the files that workloads read.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Inputs {
    /// Paths of data sets by kind. Kinds without a path use synthetic data.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub data: BTreeMap<DatasetKind, PathBuf>,
    /// Column names for labelled texts, given on the command line.
    #[serde(default)]
    pub columns: ColumnNames,
    /// Path of the tokenizer or vocabulary. If absent, labelled texts get a WordPiece vocabulary of their words.
    pub vocabulary: Option<PathBuf>,
    /// Paths of checkpoints by workload name. The empty name applies to all other workloads. Workloads without a checkpoint use random
    /// weights from a seed.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub weights: BTreeMap<String, PathBuf>,
    /// Use random weights even for workloads that need a checkpoint.
    #[serde(default)]
    pub random: bool,
    /// Folder for tokenized data, whose files are named by content hash.
    pub cache: PathBuf,
}

/// Deserializes `null`, which older runs recorded, as an empty map.
fn null_as_empty<'de, D, K>(deserializer: D) -> Result<BTreeMap<K, PathBuf>, D::Error>
where
    D: serde::Deserializer<'de>,
    K: Ord + serde::Deserialize<'de>,
{
    use serde::Deserialize;
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Inputs {
    /// Returns the checkpoint path for a workload.
    pub fn weights_of(&self, workload: &str) -> Option<&Path> {
        let found = self.weights.get(workload).or_else(|| self.weights.get(""));
        found.map(PathBuf::as_path)
    }

    /// Iterates over the paths of data, vocabulary and weights.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let paths = self.data.values().chain(self.weights.values());
        paths.chain(&self.vocabulary)
    }

    /// Iterates mutably over the paths of data, vocabulary and weights.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let paths = self.data.values_mut().chain(self.weights.values_mut());
        paths.chain(&mut self.vocabulary)
    }

    /// Returns the path of the data set of a kind.
    pub fn data_of(&self, kind: DatasetKind) -> Option<&Path> {
        self.data.get(&kind).map(PathBuf::as_path)
    }
}
