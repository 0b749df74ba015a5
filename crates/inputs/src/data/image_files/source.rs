//! Undecoded images of a data set, grouped into parts: training, validation and test.

use std::{borrow::Cow, path::PathBuf};

use crate::data::{
    cifar10::{CIFAR_EDGE, CIFAR_RECORD},
    examples::Part,
    images::CHANNELS,
    split::PredefinedSplits,
};

/// Label and location of an image that is not decoded yet.
pub(super) struct UndecodedImage {
    pub label: u32,
    pub origin: Origin,
}

/// Location of an image.
pub(super) enum Origin {
    /// Image of a file of many images.
    Raw { file: usize, index: usize },
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
    /// Contents of the files of many images.
    pub raw: Vec<RawImages>,
}

/// File of images of one size. Each is stored as color planes, or as one plane of gray values.
pub(super) struct RawImages {
    pub path: PathBuf,
    bytes: Vec<u8>,
    /// Distance between the starts of two images, in bytes.
    stride: usize,
    /// Bytes before the pixels of an image.
    skip: usize,
    width: usize,
    height: usize,
}

impl RawImages {
    /// Creates the images of a CIFAR-10 batch, without their labels.
    pub fn cifar(bytes: Vec<u8>, path: PathBuf) -> Self {
        Self {
            path,
            bytes,
            stride: CIFAR_RECORD,
            skip: CIFAR_RECORD - CHANNELS * CIFAR_EDGE * CIFAR_EDGE,
            width: CIFAR_EDGE,
            height: CIFAR_EDGE,
        }
    }

    /// Creates images of gray values, of `width` × `height` pixels.
    pub fn grayscale(bytes: Vec<u8>, (width, height): (usize, usize), path: PathBuf) -> Self {
        Self {
            path,
            bytes,
            stride: width * height,
            skip: 0,
            width,
            height,
        }
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Returns width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width as u32, self.height as u32)
    }

    /// Returns the color planes of an image.
    pub fn planes(&self, index: usize) -> Cow<'_, [u8]> {
        let values = &self.bytes[index * self.stride..][self.skip..self.stride];
        match values.len() == self.width * self.height {
            true => values.repeat(CHANNELS).into(),
            false => values.into(),
        }
    }
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
