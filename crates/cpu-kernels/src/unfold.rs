//! Unfolding of image windows on the CPU, in parallel. A row of a window is copied as a whole.

use burn::{backend::TensorMetadata, tensor::Shape};
use burn_flex::FlexTensor;
use bytemuck::Pod;

use crate::{
    contiguous::packed,
    parallel_init::init_chunks,
    storage::{Stored, contiguous_tensor},
};

/// Implements `PrecisionBackend::windows` of `mantissa-precision`.
pub(crate) fn windows<T: Stored>(
    images: FlexTensor,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
) -> FlexTensor {
    let geometry = Geometry {
        images: images.shape().dims(),
        filter,
        stride,
        padding,
    };
    let images = packed(images);
    let (n, [y, x], window) = (geometry.images[0], geometry.steps(), geometry.window());
    let (values, line) = (images.storage::<T>(), x * window);
    let windows = init_chunks(n * y * line, line, |range, to| {
        geometry.copy_line(values, range.start / line, to);
    });
    contiguous_tensor(windows, Shape::new([n * y * x, window]))
}

/// Geometry of channels-last images and the windows over them. A *line* is all windows that begin in one row of an
/// image.
pub(crate) struct Geometry {
    /// `[n, h, w, c]`.
    pub images: [usize; 4],
    pub filter: [usize; 2],
    pub stride: usize,
    pub padding: usize,
}

impl Geometry {
    /// Returns the number of lines of an image, and of windows per line.
    pub fn steps(&self) -> [usize; 2] {
        let [_, h, w, _] = self.images;
        let steps = |image: usize, filter: usize| (image + 2 * self.padding - filter) / self.stride + 1;
        [steps(h, self.filter[0]), steps(w, self.filter[1])]
    }

    /// Returns the number of values of a window.
    pub fn window(&self) -> usize {
        self.filter[0] * self.filter[1] * self.images[3]
    }

    /// Copies the windows of line `at`, counted over all images, into `line`. Elements of `line` that are outside the image are not
    /// written and must already be zero.
    pub fn copy_line<E: Pod>(&self, values: &[E], at: usize, line: &mut [E]) {
        let [_, h, w, c] = self.images;
        let ([rows, columns], [y, _]) = (self.filter, self.steps());
        let (image, top) = (&values[at / y * h * w * c..][..h * w * c], at % y * self.stride);
        for (part, to) in line.chunks_exact_mut(columns * c).enumerate() {
            let (left, row) = (part / rows * self.stride, part % rows);
            let Some(row) = (top + row).checked_sub(self.padding).filter(|row| *row < h) else {
                continue;
            };
            // Columns of the window that are inside the image.
            let first = self.padding.saturating_sub(left).min(columns);
            let last = (w + self.padding).saturating_sub(left).clamp(first, columns);
            let from = row * w + (left + first).saturating_sub(self.padding);
            to[first * c..last * c].copy_from_slice(&image[from * c..][..(last - first) * c]);
        }
    }
}
