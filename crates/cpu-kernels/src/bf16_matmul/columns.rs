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
    readable,
};
use crate::{buffers, parallel_init::written, storage::Stored};

/// Columns per strip: three registers. With the rows of a tile this takes 24 registers of sums, which leaves room for columns and rows.
/// The last strip has fewer registers if they are sufficient.
const COLUMNS: usize = 3 * LANES;

/// Values of rows that are multiplied at a time: together with a strip of columns they fit into a core's L2 cache.
const BLOCK: usize = 128 << 10;

/// Maximum number of rows that are multiplied at a time.
const MOST_ROWS: usize = 128;

const PAIR: usize = size_of::<u32>();

pub(crate) struct Columns {
    with: Instruction,
    /// Strips of columns, one after the other.
    buffer: Arc<Bytes>,
    count: usize,
    depth: usize,
}

impl Columns {
    /// Rearranges columns.
    pub fn of(with: Instruction, columns: Matrix<'_>) -> Self {
        let pairs = columns.depth.div_ceil(2);
        let buffer = buffers::filled(columns.lanes.next_multiple_of(LANES) * pairs, |values| {
            let values: &mut [u32] = bytemuck::cast_slice_mut(values);
            values
                .par_chunks_mut(COLUMNS * pairs)
                .enumerate()
                .for_each(|(strip, to)| {
                    let first = strip * COLUMNS;
                    match to.len() / pairs / LANES {
                        1 => columns.arrange::<LANES>(with, first, to.as_chunks_mut().0),
                        2 => columns.arrange::<{ 2 * LANES }>(with, first, to.as_chunks_mut().0),
                        _ => columns.arrange::<COLUMNS>(with, first, to.as_chunks_mut().0),
                    }
                });
        });
        Self {
            with,
            buffer,
            count: columns.lanes,
            depth: columns.depth,
        }
    }

    /// Rearranges the columns of a tensor `[depth, columns]`.
    pub fn of_tensor(with: Instruction, tensor: FlexTensor) -> Self {
        Self::of(with, Matrix::of(&readable(tensor), 0).turned())
    }

    /// Multiplies all `rows` with these columns on all threads: `[rows, columns]`.
    pub fn product<T: Stored<Wide = f32>>(&self, rows: Matrix<'_>) -> Vec<T> {
        let together = self.together(rows.lanes, rayon::current_num_threads());
        written(rows.lanes * self.count, together * self.count, |these, out| {
            self.times_some(rows, these.start / self.count, out);
        })
    }

    /// Multiplies rows with these columns, split for `threads` threads: `out` is `[rows, columns]`.
    pub fn times<T: Stored<Wide = f32>>(&self, rows: Matrix<'_>, out: &mut [T], threads: usize) {
        let together = self.together(out.len() / self.count, threads);
        out.par_chunks_mut(together * self.count)
            .enumerate()
            .for_each(|(block, out)| self.times_some(rows, block * together, out));
    }

    /// Returns the number of rows that are multiplied at a time.
    fn together(&self, rows: usize, threads: usize) -> usize {
        let in_cache = (BLOCK / self.depth / ROWS * ROWS).clamp(ROWS, MOST_ROWS);
        let share = rows.div_ceil(threads);
        in_cache.min(share.next_multiple_of(ROWS)).max(ROWS)
    }

    /// Multiplies rows, starting at `first`, with these columns on this thread.
    fn times_some<T: Stored<Wide = f32>>(&self, rows: Matrix<'_>, first: usize, out: &mut [T]) {
        let (n, pairs) = (self.count, self.depth.div_ceil(2));
        if rows.steps[1] == 1 && self.depth.is_multiple_of(2) {
            let lying = Pairs {
                bytes: bytemuck::cast_slice(rows.values),
                count: pairs,
                step: PAIR,
                part_step: 0,
            };
            let place = |row| (first + row) * rows.steps[0] * size_of::<bf16>();
            return self.times_pairs(&lying, place, out);
        }
        let strips = (out.len() / n).div_ceil(ROWS);
        let buffer = buffers::filled(strips * pairs * ROWS, |values| {
            let values = bytemuck::cast_slice_mut::<f32, u32>(values).as_chunks_mut().0;
            for (strip, to) in values.chunks_mut(pairs).enumerate() {
                rows.arrange::<ROWS>(self.with, first + strip * ROWS, to);
            }
        });
        let arranged = Pairs {
            bytes: &buffer,
            count: pairs,
            step: ROWS * PAIR,
            part_step: 0,
        };
        let place = |row| (row / ROWS * pairs * ROWS + row % ROWS) * PAIR;
        self.times_pairs(&arranged, place, out);
    }

    /// Multiplies rows with these columns on this thread. `place` returns the byte offset of a row.
    pub fn times_pairs<T: Stored<Wide = f32>>(
        &self,
        rows: &Pairs<'_>,
        place: impl Fn(usize) -> usize,
        out: &mut [T],
    ) {
        let strips = bytemuck::cast_slice::<u8, u32>(&self.buffer);
        let (n, pairs) = (self.count, self.depth.div_ceil(2));
        for left in (0..n).step_by(COLUMNS) {
            let strip = &strips[left * pairs..];
            match (n - left).div_ceil(LANES) {
                1 => self.strip::<1, T>(rows, &place, strip, left, out),
                2 => self.strip::<2, T>(rows, &place, strip, left, out),
                _ => self.strip::<3, T>(rows, &place, strip, left, out),
            }
        }
    }

    /// Computes the sums of a strip of `R` registers of columns.
    fn strip<const R: usize, T: Stored<Wide = f32>>(
        &self,
        rows: &Pairs<'_>,
        place: impl Fn(usize) -> usize,
        strip: &[u32],
        left: usize,
        out: &mut [T],
    ) {
        let n = self.count;
        let (registers, _) = strip.as_chunks::<LANES>();
        let columns = &registers.as_chunks::<R>().0[..self.depth.div_ceil(2)];
        let last = out.len() / n - 1;
        for (number, out) in out.chunks_mut(ROWS * n).enumerate() {
            // Rows of a tile beyond the last one are computed and discarded.
            let places = std::array::from_fn(|row| place((number * ROWS + row).min(last)));
            let sums = tile(self.with, rows, places, columns);
            Arch::new().dispatch(Write {
                sums: sums.each_ref().map(|sums| sums.as_flattened()),
                out,
                n,
                left,
                width: (n - left).min(R * LANES),
            });
        }
    }
}

/// Writes a tile into some rows of a product, starting at a column.
struct Write<'a, T> {
    sums: [&'a [f32]; ROWS],
    out: &'a mut [T],
    n: usize,
    left: usize,
    width: usize,
}

impl<T: Stored<Wide = f32>> NullaryFnOnce for Write<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, sums) in self.out.chunks_mut(self.n).zip(self.sums) {
            T::narrow(&sums[..self.width], &mut out[self.left..][..self.width]);
        }
    }
}
