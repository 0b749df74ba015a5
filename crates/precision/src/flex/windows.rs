//! Windows of images on the CPU: whole rows of a window at a time, in parallel. burn's copy of a strided view goes value
//! by value, which takes many times as long as the product that follows.

use burn::tensor::{Bytes, DType, Element, Shape, TensorMetadata};
use burn_flex::{FlexTensor, Layout};
use bytemuck::Pod;
use half::{bf16, f16};
use rayon::prelude::*;

/// See [`crate::PrecisionBackend::windows`].
pub(super) fn windows(images: FlexTensor, filter: [usize; 2], stride: usize, padding: usize) -> FlexTensor {
    let geometry = Geometry {
        images: images.shape().dims(),
        filter,
        stride,
        padding,
    };
    let images = images.to_contiguous();
    match images.dtype() {
        DType::F64 => geometry.copy(&images, 0f64),
        DType::F32 => geometry.copy(&images, 0f32),
        DType::F16 => geometry.copy(&images, f16::ZERO),
        DType::BF16 => geometry.copy(&images, bf16::ZERO),
        dtype => unreachable!("images are no {dtype:?}"),
    }
}

struct Geometry {
    /// `[n, h, w, c]`.
    images: [usize; 4],
    filter: [usize; 2],
    stride: usize,
    padding: usize,
}

impl Geometry {
    fn copy<E: Element + Pod + Send + Sync>(&self, images: &FlexTensor, zero: E) -> FlexTensor {
        let [n, h, w, c] = self.images;
        let [rows, columns] = self.filter;
        let steps = |image: usize, filter: usize| (image + 2 * self.padding - filter) / self.stride + 1;
        let (y, x) = (steps(h, rows), steps(w, columns));
        let values = images.storage::<E>();
        let mut windows = vec![zero; n * y * x * rows * columns * c];
        // A line is all windows that begin in one row of an image.
        let line = (x * rows * columns * c).max(1);
        windows.par_chunks_mut(line).enumerate().for_each(|(at, line)| {
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
        });
        FlexTensor::new(
            Bytes::from_elems(windows),
            Layout::contiguous(Shape::new([n * y * x, rows * columns * c])),
            images.dtype(),
        )
    }
}
