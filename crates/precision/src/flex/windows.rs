//! Windows of images on the CPU: whole rows of a window at a time, in parallel. burn's copy of a strided view goes value
//! by value, which takes many times as long as the product that follows.

use burn::tensor::{Bytes, DType, Element, Shape, TensorMetadata};
use burn_flex::{FlexTensor, Layout};
use bytemuck::Pod;
use half::{bf16, f16};
use rayon::prelude::*;

use super::packed::packed;

/// See [`crate::PrecisionBackend::windows`].
pub(super) fn windows(images: FlexTensor, filter: [usize; 2], stride: usize, padding: usize) -> FlexTensor {
    let geometry = Geometry {
        images: images.shape().dims(),
        filter,
        stride,
        padding,
    };
    let images = packed(images);
    match images.dtype() {
        DType::F64 => geometry.copy(&images, 0f64),
        DType::F32 => geometry.copy(&images, 0f32),
        DType::F16 => geometry.copy(&images, f16::ZERO),
        DType::BF16 => geometry.copy(&images, bf16::ZERO),
        dtype => unreachable!("images are no {dtype:?}"),
    }
}

/// Channels-last images and the windows over them. A *line* is all windows that begin in one row of an image.
pub(super) struct Geometry {
    /// `[n, h, w, c]`.
    pub images: [usize; 4],
    pub filter: [usize; 2],
    pub stride: usize,
    pub padding: usize,
}

impl Geometry {
    /// Lines of an image, and windows of a line.
    pub fn steps(&self) -> [usize; 2] {
        let [_, h, w, _] = self.images;
        let steps = |image: usize, filter: usize| (image + 2 * self.padding - filter) / self.stride + 1;
        [steps(h, self.filter[0]), steps(w, self.filter[1])]
    }

    /// Values of a window.
    pub fn window(&self) -> usize {
        self.filter[0] * self.filter[1] * self.images[3]
    }

    /// Copies the windows of a line, counted over all images, into `line`, of which what lies beside the image is zero already.
    pub fn copy_line<E: Pod>(&self, values: &[E], at: usize, line: &mut [E]) {
        let [_, h, w, c] = self.images;
        let ([rows, columns], [y, _]) = (self.filter, self.steps());
        let (image, top) = (&values[at / y * h * w * c..][..h * w * c], at % y * self.stride);
        for (part, to) in line.chunks_exact_mut(columns * c).enumerate() {
            let (left, row) = (part / rows * self.stride, part % rows);
            let Some(row) = (top + row).checked_sub(self.padding).filter(|row| *row < h) else {
                continue;
            };
            // Columns of the window that lie on the image.
            let first = self.padding.saturating_sub(left).min(columns);
            let last = (w + self.padding).saturating_sub(left).clamp(first, columns);
            let from = row * w + (left + first).saturating_sub(self.padding);
            to[first * c..last * c].copy_from_slice(&image[from * c..][..(last - first) * c]);
        }
    }

    fn copy<E: Element + Pod + Send + Sync>(&self, images: &FlexTensor, zero: E) -> FlexTensor {
        let (n, [y, x], window) = (self.images[0], self.steps(), self.window());
        let values = images.storage::<E>();
        let mut windows = vec![zero; n * y * x * window];
        windows
            .par_chunks_mut((x * window).max(1))
            .enumerate()
            .for_each(|(at, line)| self.copy_line(values, at, line));
        FlexTensor::new(
            Bytes::from_elems(windows),
            Layout::contiguous(Shape::new([n * y * x, window])),
            images.dtype(),
        )
    }
}
