//! Data set of the user's examples.

use std::{path::Path, sync::Arc};

use mantissa_core::DataSource;

use super::UserWorkload;
use crate::{
    WorkloadError,
    data::{Dataset, Labelled, Part, RequestedSplits, divided},
};

/// Loads the examples of a workload and divides them into training, validation and test splits.
pub(super) fn load<W: UserWorkload>(
    workload: &W,
    splits: &RequestedSplits,
    path: Option<&Path>,
) -> Result<Dataset<OwnPart<W>>, WorkloadError> {
    let examples = workload.examples(path).map_err(WorkloadError::data)?;
    let classes = workload.classes();
    let mut hasher = blake3::Hasher::new();
    for (example, class) in examples.train.iter().chain(examples.test.iter().flatten()) {
        if *class >= classes {
            return Err(WorkloadError::data(format!(
                "an example has class {class}, but the model has {classes} classes, numbered from 0"
            )));
        }
        let bytes = workload.bytes(example);
        hasher.update(&class.to_le_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    }
    hasher.update(&(examples.train.len() as u64).to_le_bytes());
    let parts = divided(examples.train, examples.test, splits);
    let ([train, validation, test], remark) = parts.map_err(WorkloadError::data)?;
    let part = |examples: Vec<(W::Example, u32)>| OwnPart {
        examples: Arc::new(examples),
    };
    Ok(Dataset {
        train: part(train),
        validation: part(validation),
        test: part(test),
        classes,
        source: DataSource {
            name: examples.name + remark,
            hash: hasher.finalize().to_hex()[..16].to_owned(),
            synthetic: examples.synthetic,
            ..DataSource::default()
        },
    })
}

/// Split (training, validation or test) of the user's examples.
pub(crate) struct OwnPart<W: UserWorkload> {
    pub(super) examples: Arc<Vec<(W::Example, u32)>>,
}

/// Batch of the user's examples.
pub(crate) struct OwnBatch<W: UserWorkload> {
    pub(super) examples: Arc<Vec<(W::Example, u32)>>,
    pub(super) indices: Vec<usize>,
    labels: Vec<i32>,
}

impl<W: UserWorkload> Clone for OwnBatch<W> {
    fn clone(&self) -> Self {
        Self {
            examples: self.examples.clone(),
            indices: self.indices.clone(),
            labels: self.labels.clone(),
        }
    }
}

impl<W: UserWorkload> Part for OwnPart<W> {
    type Batch = OwnBatch<W>;

    fn len(&self) -> usize {
        self.examples.len()
    }

    fn batch(&self, indices: &[usize]) -> OwnBatch<W> {
        OwnBatch {
            examples: self.examples.clone(),
            indices: indices.to_vec(),
            labels: indices
                .iter()
                .map(|index| self.examples[*index].1 as i32)
                .collect(),
        }
    }
}

impl<W: UserWorkload> Labelled for OwnBatch<W> {
    fn labels(&self) -> &[i32] {
        &self.labels
    }
}
