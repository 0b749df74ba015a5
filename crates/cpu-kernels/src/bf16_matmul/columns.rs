//! Rearranged columns of a right operand, and their multiplication with rows.

use std::sync::Arc;

use burn::tensor::Bytes;
use burn_flex::FlexTensor;
use half::bf16;
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::{
    arrange::Matrix,
    instruction::{Instruction, LANES, Pairs, ROWS, tile},
    with_unit_stride,
};
use crate::{buffers, parallel_init::init_chunks, storage::Stored};

/// Columns per strip: the values of three registers. The sums of a tile of 8 rows then take 24 of the 32 registers. The other registers store columns
/// and rows. The last strip uses fewer registers if its columns fit.
const COLUMNS: usize = 3 * LANES;

/// Maximum number of values in the rows that are multiplied at a time. These rows and a strip of columns fit into a core's L2 cache.
const VALUES_PER_BLOCK: usize = 128 << 10;

/// Maximum number of rows that are multiplied at a time.
const MAX_ROWS_PER_BLOCK: usize = 128;

/// Bytes of a pair of bf16 values.
const PAIR_BYTES: usize = size_of::<u32>();

/// Rearranged columns of a right operand.
pub(crate) struct Columns {
    instruction: Instruction,
    /// Strips of columns, one after the other.
    buffer: Arc<Bytes>,
    count: usize,
    depth: usize,
}

impl Columns {
    /// Rearranges columns.
    pub fn arrange(instruction: Instruction, columns: Matrix<'_>) -> Self {
        let pairs = columns.depth.div_ceil(2);
        let buffer = buffers::fill_buffer(columns.lanes.next_multiple_of(LANES) * pairs, |values| {
            let values: &mut [u32] = bytemuck::cast_slice_mut(values);
            values
                .par_chunks_mut(COLUMNS * pairs)
                .enumerate()
                .for_each(|(strip, to)| {
                    let first = strip * COLUMNS;
                    match to.len() / pairs / LANES {
                        1 => columns.arrange::<LANES>(instruction, first, to.as_chunks_mut().0),
                        2 => columns.arrange::<{ 2 * LANES }>(instruction, first, to.as_chunks_mut().0),
                        _ => columns.arrange::<COLUMNS>(instruction, first, to.as_chunks_mut().0),
                    }
                });
        });
        Self {
            instruction,
            buffer,
            count: columns.lanes,
            depth: columns.depth,
        }
    }

    /// Rearranges the columns of a tensor `[depth, columns]`.
    pub fn from_tensor(instruction: Instruction, tensor: FlexTensor) -> Self {
        Self::arrange(
            instruction,
            Matrix::from_tensor(&with_unit_stride(tensor), 0).transposed(),
        )
    }

    /// Multiplies all `rows` with these columns on all threads, and returns `[rows, columns]`.
    pub fn multiply<T: Stored<Wide = f32>>(&self, rows: Matrix<'_>) -> Vec<T> {
        let block_rows = self.rows_per_block(rows.lanes, rayon::current_num_threads());
        init_chunks(rows.lanes * self.count, block_rows * self.count, |range, out| {
            self.multiply_block(rows, range.start / self.count, out);
        })
    }

    /// Multiplies rows with these columns into `out` `[rows, columns]`, in blocks for `threads` threads.
    pub fn multiply_on_threads<T: Stored<Wide = f32>>(
        &self,
        rows: Matrix<'_>,
        out: &mut [T],
        threads: usize,
    ) {
        let block_rows = self.rows_per_block(out.len() / self.count, threads);
        out.par_chunks_mut(block_rows * self.count)
            .enumerate()
            .for_each(|(block, out)| self.multiply_block(rows, block * block_rows, out));
    }

    /// Returns the number of rows that are multiplied at a time.
    fn rows_per_block(&self, rows: usize, threads: usize) -> usize {
        let in_cache = (VALUES_PER_BLOCK / self.depth / ROWS * ROWS).clamp(ROWS, MAX_ROWS_PER_BLOCK);
        let share = rows.div_ceil(threads);
        in_cache.min(share.next_multiple_of(ROWS)).max(ROWS)
    }

    /// Multiplies rows, starting at `first`, with these columns on this thread.
    fn multiply_block<T: Stored<Wide = f32>>(&self, rows: Matrix<'_>, first: usize, out: &mut [T]) {
        let (n, pairs) = (self.count, self.depth.div_ceil(2));
        if rows.steps[1] == 1 && self.depth.is_multiple_of(2) {
            let in_place = Pairs {
                bytes: bytemuck::cast_slice(rows.values),
                count: pairs,
                step: PAIR_BYTES,
                part_step: 0,
            };
            let row_offset = |row| (first + row) * rows.steps[0] * size_of::<bf16>();
            return self.multiply_pairs(&in_place, row_offset, out);
        }
        let strips = (out.len() / n).div_ceil(ROWS);
        let buffer = buffers::fill_buffer(strips * pairs * ROWS, |values| {
            let values = bytemuck::cast_slice_mut::<f32, u32>(values).as_chunks_mut().0;
            for (strip, to) in values.chunks_mut(pairs).enumerate() {
                rows.arrange::<ROWS>(self.instruction, first + strip * ROWS, to);
            }
        });
        let arranged = Pairs {
            bytes: &buffer,
            count: pairs,
            step: ROWS * PAIR_BYTES,
            part_step: 0,
        };
        let row_offset = |row| (row / ROWS * pairs * ROWS + row % ROWS) * PAIR_BYTES;
        self.multiply_pairs(&arranged, row_offset, out);
    }

    /// Multiplies rows with these columns on this thread. `row_offset` returns the byte offset of a row.
    pub fn multiply_pairs<T: Stored<Wide = f32>>(
        &self,
        rows: &Pairs<'_>,
        row_offset: impl Fn(usize) -> usize,
        out: &mut [T],
    ) {
        let strips = bytemuck::cast_slice::<u8, u32>(&self.buffer);
        let (n, pairs) = (self.count, self.depth.div_ceil(2));
        for left in (0..n).step_by(COLUMNS) {
            let strip = &strips[left * pairs..];
            match (n - left).div_ceil(LANES) {
                1 => self.strip::<1, T>(rows, &row_offset, strip, left, out),
                2 => self.strip::<2, T>(rows, &row_offset, strip, left, out),
                _ => self.strip::<3, T>(rows, &row_offset, strip, left, out),
            }
        }
    }

    /// Multiplies rows with a strip of `R` registers of columns.
    fn strip<const R: usize, T: Stored<Wide = f32>>(
        &self,
        rows: &Pairs<'_>,
        row_offset: impl Fn(usize) -> usize,
        strip: &[u32],
        left: usize,
        out: &mut [T],
    ) {
        let n = self.count;
        let (registers, _) = strip.as_chunks::<LANES>();
        let columns = &registers.as_chunks::<R>().0[..self.depth.div_ceil(2)];
        let last = out.len() / n - 1;
        for (number, out) in out.chunks_mut(ROWS * n).enumerate() {
            // Rows of a tile after the last row of the block are computed and discarded.
            let offsets = std::array::from_fn(|row| row_offset((number * ROWS + row).min(last)));
            let sums = tile(self.instruction, rows, offsets, columns);
            Arch::new().dispatch(WriteTile {
                sums: sums.each_ref().map(|sums| sums.as_flattened()),
                out,
                n,
                left,
                width: (n - left).min(R * LANES),
            });
        }
    }
}

/// Writes a tile of sums into rows of the output, starting at column `left`.
struct WriteTile<'a, T> {
    sums: [&'a [f32]; ROWS],
    out: &'a mut [T],
    n: usize,
    left: usize,
    width: usize,
}

impl<T: Stored<Wide = f32>> NullaryFnOnce for WriteTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, sums) in self.out.chunks_mut(self.n).zip(self.sums) {
            T::narrow(&sums[..self.width], &mut out[self.left..][..self.width]);
        }
    }
}
