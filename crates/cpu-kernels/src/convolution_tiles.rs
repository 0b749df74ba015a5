//! Matmuls of windows and filters on the CPU, one tile of windows at a time. A line is all windows that begin in one row of an image, and
//! a tile is a group of lines that fits into the cache. For filters of 3 × 3, all windows together would take nine times the memory of
//! the images.

use std::sync::Arc;

use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor},
    tensor::{Bytes, DType, Shape},
};
use burn_flex::{Flex, FlexTensor, Layout};
use bytemuck::Pod;
use half::bf16;
use rayon::prelude::*;

use crate::{
    bf16_matmul::{Columns, Instruction, Matrix, Pairs},
    buffers,
    contiguous::packed,
    parallel_init::init_chunks,
    storage::{Stored, contiguous_tensor},
    unfold::Geometry,
};

/// Bytes of windows per tile: about the part of a core's L2 cache that filters and results leave free.
const TILE_BYTES: usize = 256 << 10;

/// Multiplies all windows of channels-last images `[n, h, w, c]` with filters `[a · b · c, o]`, both in f32: `[n · y · x, o]`.
pub fn windows_matmul(
    images: FloatTensor<Flex>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
    filters: FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let tiles = Tiles::new(images, filter, stride, padding, &filters);
    let filters = packed(filters);
    tiles.multiply::<f32, f32>(|windows, shape, out| {
        let layout = Layout::contiguous(Shape::new(shape));
        let windows = FlexTensor::from_arc(windows, layout, DType::F32);
        let product = Flex::float_matmul(windows, filters.clone()).to_contiguous();
        out.copy_from_slice(&product.storage::<f32>()[..out.len()]);
    })
}

/// Computes [`windows_matmul`] of bf16 images and filters. Sums are returned in f32, or rounded to bf16 if `output` is bf16. Rows of
/// windows with an even number of values are read in place, from zero-padded images.
pub fn windows_matmul_bf16(
    instruction: Instruction,
    images: FloatTensor<Flex>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
    filters: FloatTensor<Flex>,
    output: DType,
) -> FloatTensor<Flex> {
    let tiles = Tiles::new(images, filter, stride, padding, &filters);
    match output {
        DType::BF16 => multiply_bf16::<bf16>(instruction, &tiles, filters),
        _ => multiply_bf16::<f32>(instruction, &tiles, filters),
    }
}

fn multiply_bf16<O: Stored<Wide = f32>>(
    instruction: Instruction,
    tiles: &Tiles,
    filters: FlexTensor,
) -> FlexTensor {
    let columns = Columns::from_tensor(instruction, filters);
    if (tiles.geometry.filter[1] * tiles.geometry.images[3]).is_multiple_of(2) {
        return tiles.multiply_in_place::<O>(&columns);
    }
    tiles.multiply::<bf16, O>(|windows, [positions, window], out| {
        let rows = Matrix {
            values: &bytemuck::cast_slice(&windows)[..positions * window],
            lanes: positions,
            depth: window,
            steps: [window, 1],
        };
        // One thread, because the lines are already split between all threads.
        columns.multiply_on_threads(rows, out, 1);
    })
}

/// Windows over images, which are multiplied some lines at a time.
struct Tiles {
    geometry: Geometry,
    images: FlexTensor,
    channels: usize,
}

impl Tiles {
    fn new(
        images: FlexTensor,
        filter: [usize; 2],
        stride: usize,
        padding: usize,
        filters: &FlexTensor,
    ) -> Self {
        let geometry = Geometry {
            images: images.shape().dims(),
            filter,
            stride,
            padding,
        };
        assert_eq!(
            filters.shape()[0],
            geometry.window(),
            "a filter must have as many values as a window"
        );
        Self {
            geometry,
            images: packed(images),
            channels: filters.shape()[1],
        }
    }

    /// Calls `multiply` for each tile of some lines, with its windows, their shape `[positions, values]`, and the slice for their product.
    fn multiply<E: Stored + Pod, O: Stored>(
        &self,
        multiply: impl Fn(Arc<Bytes>, [usize; 2], &mut [O]) + Sync,
    ) -> FlexTensor {
        let (geometry, channels) = (&self.geometry, self.channels);
        let values = self.images.storage::<E>();
        let (n, [y, x], window) = (geometry.images[0], geometry.steps(), geometry.window());
        let line = x * window;
        let lines = (TILE_BYTES / size_of::<E>() / line.max(1)).max(1);
        let out = init_chunks(n * y * x * channels, lines * x * channels, |range, out| {
            let first = range.start / (x * channels);
            let positions = out.len() / channels;
            let count = positions * window;
            let words = (count * size_of::<E>()).div_ceil(size_of::<f32>());
            let windows = buffers::fill_buffer(words, |windows| {
                windows.fill(0.0);
                // With 16-bit values, half of the last 32-bit word may be unused. The slice excludes this half, which could otherwise count
                // as a line.
                let windows: &mut [E] = &mut bytemuck::cast_slice_mut(windows)[..count];
                for (at, to) in windows.chunks_exact_mut(line).enumerate() {
                    geometry.copy_line(values, first + at, to);
                }
            });
            multiply(windows, [positions, window], out);
        });
        contiguous_tensor(out, Shape::new([n * y * x, channels]))
    }

    /// Multiplies some lines of windows at a time. Reads the windows in place from a zero-padded copy of their part of the image.
    fn multiply_in_place<O: Stored<Wide = f32>>(&self, columns: &Columns) -> FlexTensor {
        let (geometry, channels) = (&self.geometry, self.channels);
        let values = self.images.storage::<bf16>();
        let ([n, h, w, c], [y, x]) = (geometry.images, geometry.steps());
        let ([rows, across], stride) = (geometry.filter, geometry.stride);
        let row = (w + 2 * geometry.padding) * c;
        let lines = (TILE_BYTES / size_of::<bf16>() / (row * stride).max(1)).clamp(1, y.max(1));
        let values_per_image = y * x * channels;
        let out = init_chunks(n * values_per_image, values_per_image, |range, out: &mut [O]| {
            let image = &values[range.start / values_per_image * h * w * c..][..h * w * c];
            let pieces = out.par_chunks_mut(lines * x * channels).enumerate();
            pieces.for_each(|(piece, out)| {
                let first = piece * lines;
                let lines = out.len() / (x * channels);
                let count = ((lines - 1) * stride + rows) * row;
                let padded = buffers::fill_buffer(count.div_ceil(2), |padded| {
                    padded.fill(0.0);
                    let padded: &mut [bf16] = &mut bytemuck::cast_slice_mut(padded)[..count];
                    for (at, to) in padded.chunks_exact_mut(row).enumerate() {
                        let from = (first * stride + at).checked_sub(geometry.padding);
                        if let Some(from) = from.filter(|from| *from < h) {
                            to[geometry.padding * c..][..w * c]
                                .copy_from_slice(&image[from * w * c..][..w * c]);
                        }
                    }
                });
                let windows = Pairs {
                    bytes: &padded,
                    count: across * c / 2,
                    step: 2 * size_of::<bf16>(),
                    part_step: row * size_of::<bf16>(),
                };
                let row_offset = |at: usize| stride * (at / x * row + at % x * c) * size_of::<bf16>();
                columns.multiply_pairs(&windows, row_offset, out);
            });
        });
        contiguous_tensor(out, Shape::new([n * y * x, channels]))
    }
}
