//! Labelled images, and batches of them.

use super::{Labelled, Named, Numbers, Part};

/// Number of color channels of an image.
pub(super) const CHANNELS: usize = 3;

/// Mean and standard deviation of each color channel. Pixels are scaled to the range from 0 to 1, the mean is subtracted, and the
/// difference is divided by the standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalization {
    means: [f32; CHANNELS],
    deviations: [f32; CHANNELS],
}

impl Normalization {
    /// Creates a normalization with these means and standard deviations.
    pub const fn new(means: [f32; CHANNELS], deviations: [f32; CHANNELS]) -> Self {
        Self { means, deviations }
    }

    /// Returns the means of red, green and blue, for pixels scaled to the range from 0 to 1.
    pub(super) const fn means(self) -> [f32; CHANNELS] {
        self.means
    }

    /// Returns the standard deviations of red, green and blue, on the same scale.
    pub(super) const fn deviations(self) -> [f32; CHANNELS] {
        self.deviations
    }

    /// Means and standard deviations of ImageNet. torchvision's models and those of `akamaster/pytorch_resnet_cifar10` were trained with them.
    pub const IMAGENET: Self = Self {
        means: [0.485, 0.456, 0.406],
        deviations: [0.229, 0.224, 0.225],
    };

    /// Maps pixels to the range from −1 to 1. Published vision transformers were trained with it.
    pub const UNIT: Self = Self {
        means: [0.5; CHANNELS],
        deviations: [0.5; CHANNELS],
    };
}

/// Square images of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    pixels: Pixels,
    edge: usize,
    labels: Vec<i32>,
}

/// Pixels in row-major order, one color plane after the other, image by image.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pixels {
    /// Normalized values, the input of models.
    Values(Vec<f32>),
    /// Bytes as in files, and their normalization.
    Bytes(Vec<u8>, Normalization),
}

/// Batch of images on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageBatch {
    /// Normalized values of shape `[images, channels, edge, edge]` in row-major order.
    pub values: Vec<f32>,
    /// Edge of an image, in pixels.
    pub edge: usize,
    /// Class of each image, from 0.
    pub labels: Vec<i32>,
}

impl Labelled for ImageBatch {
    fn labels(&self) -> &[i32] {
        &self.labels
    }

    fn tensors(&self) -> Vec<Named<'_>> {
        let pixels = Named {
            name: "pixels",
            shape: vec![self.labels.len(), CHANNELS, self.edge, self.edge],
            numbers: Numbers::Real(&self.values),
        };
        vec![
            pixels,
            Named::whole("labels", vec![self.labels.len()], &self.labels),
        ]
    }
}

impl Images {
    /// Creates images of this edge, with one label each.
    pub(super) fn new(pixels: Pixels, edge: usize, labels: Vec<i32>) -> Self {
        Self { pixels, edge, labels }
    }

    /// Returns the edge of an image, in pixels.
    pub fn edge(&self) -> usize {
        self.edge
    }

    /// Replaces every label by the result of `change`.
    #[must_use]
    pub fn with_labels(mut self, change: impl Fn(i32) -> i32) -> Self {
        self.labels.iter_mut().for_each(|label| *label = change(*label));
        self
    }

    /// Returns the class of each image, from 0.
    pub fn labels(&self) -> &[i32] {
        &self.labels
    }

    /// Appends the normalized values of an image.
    fn append_values(&self, index: usize, to: &mut Vec<f32>) {
        let plane = self.edge * self.edge;
        let range = index * CHANNELS * plane..(index + 1) * CHANNELS * plane;
        match &self.pixels {
            Pixels::Values(values) => to.extend_from_slice(&values[range]),
            Pixels::Bytes(bytes, normalization) => {
                let planes = bytes[range]
                    .chunks_exact(plane)
                    .zip(normalization.means.iter().zip(normalization.deviations));
                for (plane, (mean, deviation)) in planes {
                    to.extend(
                        plane
                            .iter()
                            .map(|byte| (f32::from(*byte) / 255.0 - mean) / deviation),
                    );
                }
            }
        }
    }
}

impl Part for Images {
    type Batch = ImageBatch;

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn batch(&self, indices: &[usize]) -> ImageBatch {
        let mut values = Vec::with_capacity(indices.len() * CHANNELS * self.edge * self.edge);
        indices
            .iter()
            .for_each(|&index| self.append_values(index, &mut values));
        ImageBatch {
            values,
            edge: self.edge,
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
        }
    }
}
