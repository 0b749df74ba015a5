//! Products of windows and filters on the CPU, some lines of windows at a time: they are multiplied while they lie in the cache, and the
//! windows of all images, nine times the images for filters of 3 × 3, are never in memory.

use burn::tensor::{
    Bytes, DType, Shape, TensorMetadata,
    ops::{FloatTensor, FloatTensorOps},
};
use burn_flex::{Flex, FlexTensor, Layout};
use rayon::prelude::*;

use super::{buffers, windows::Geometry};

/// Bytes of windows at a time: about what a core's second cache holds beside the filters and the result.
const TILE_BYTES: usize = 256 << 10;

/// The product of all windows of channels-last images `[n, h, w, c]` in f32, and filters `[a · b · c, o]`: `[n · y · x, o]`.
pub(super) fn product(
    images: FloatTensor<Flex>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
    filters: FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let geometry = Geometry {
        images: images.shape().dims(),
        filter,
        stride,
        padding,
    };
    let (images, filters) = (images.to_contiguous(), filters.to_contiguous());
    let (n, [y, x], window) = (geometry.images[0], geometry.steps(), geometry.window());
    let channels = filters.shape()[1];
    let values = images.storage::<f32>();
    let mut out = vec![0f32; n * y * x * channels];
    let (line, lines) = (x * window, (TILE_BYTES / 4 / (x * window).max(1)).max(1));
    out.par_chunks_mut((lines * x * channels).max(1))
        .enumerate()
        .for_each(|(tile, out)| {
            let positions = out.len() / channels;
            let windows = buffers::filled(positions * window, |windows| {
                windows.fill(0.0);
                for (at, to) in windows.chunks_exact_mut(line).enumerate() {
                    geometry.copy_line(values, tile * lines + at, to);
                }
            });
            let layout = Layout::contiguous(Shape::new([positions, window]));
            let windows = FlexTensor::from_arc(windows, layout, DType::F32);
            let product = Flex::float_matmul(windows, filters.clone()).to_contiguous();
            out.copy_from_slice(&product.storage::<f32>()[..out.len()]);
        });
    FlexTensor::new(
        Bytes::from_elems(out),
        Layout::contiguous(Shape::new([n * y * x, channels])),
        DType::F32,
    )
}
