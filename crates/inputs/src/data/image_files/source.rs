//! Undecoded images of a data set, grouped into parts: training, validation and test.

use std::path::PathBuf;

use crate::data::{examples::Part, split::PredefinedSplits};

/// Label and location of an image that is not decoded yet.
pub(super) struct UndecodedImage {
    pub label: u32,
    pub origin: Origin,
}

/// Location of an image.
pub(super) enum Origin {
    /// Record of a CIFAR-10 batch.
    Record { file: usize, index: usize },
    /// Image file.
    File(PathBuf),
}

/// Undecoded images of a data set.
pub(super) struct Source {
    pub name: String,
    pub classes: u32,
    /// Numbers and names of the classes that occur.
    pub names: Vec<(u32, String)>,
    /// Skipped files and other decisions that are reported to the user.
    pub notes: Vec<String>,
    pub predefined: PredefinedSplits<UndecodedImage>,
    /// Contents of the CIFAR-10 files.
    pub batches: Vec<Vec<u8>>,
}

/// Creates an empty list for the training part, and for each other part that occurs in `parts`.
pub(super) fn empty_parts(parts: impl Iterator<Item = Part> + Clone) -> PredefinedSplits<UndecodedImage> {
    let has = |wanted| parts.clone().any(|part| part == wanted);
    PredefinedSplits {
        train: vec![],
        validation: has(Part::Validation).then(Vec::new),
        test: has(Part::Test).then(Vec::new),
    }
}

/// Adds an image to a part that [`empty_parts`] created.
pub(super) fn add(splits: &mut PredefinedSplits<UndecodedImage>, part: Part, found: UndecodedImage) {
    let part = match part {
        Part::Train => Some(&mut splits.train),
        Part::Validation => splits.validation.as_mut(),
        Part::Test => splits.test.as_mut(),
    };
    part.expect("`empty_parts` created this part").push(found);
}
