//! Operands of a matmul in memory, and their rearrangement for the bf16 instruction. A lane is a row of the left operand or a column of the
//! right operand; a strip is a group of lanes. Depth is the position in a lane. Two values that are adjacent in depth form a pair. A rearranged
//! strip stores the first pair of each of its lanes, then the second pair of each lane, and so on.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use half::bf16;
use pulp::{Arch, NullaryFnOnce};

use super::{
    Instruction,
    instruction::{LANES, transpose_square},
};

/// Operand in memory: lanes (rows of the left, columns of the right operand), and the depth that sums run over.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub values: &'a [bf16],
    pub lanes: usize,
    pub depth: usize,
    /// Strides from one lane to the next, and along the depth; one of them is 1.
    pub steps: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// Returns the rows of the matrix that begins at `offset` in a batch.
    pub(super) fn from_tensor(tensor: &'a FlexTensor, offset: usize) -> Self {
        let (shape, layout) = (tensor.shape(), tensor.layout());
        let rank = shape.num_dims();
        Self {
            values: &tensor.storage()[layout.start_offset() + offset..],
            lanes: shape[rank - 2],
            depth: shape[rank - 1],
            steps: [rank - 2, rank - 1].map(|dim| layout.strides()[dim] as usize),
        }
    }

    /// Returns the columns of the same matrix as lanes.
    pub(super) fn transposed(self) -> Self {
        let [lane, along] = self.steps;
        Self {
            lanes: self.depth,
            depth: self.lanes,
            steps: [along, lane],
            ..self
        }
    }

    /// Rearranges up to `W` lanes, starting at `first`. An element of `to` contains the pairs of all lanes at one depth.
    pub(super) fn arrange<const W: usize>(self, instruction: Instruction, first: usize, to: &mut [[u32; W]]) {
        Arch::new().dispatch(Arrange {
            instruction,
            from: self,
            first,
            to,
        });
    }
}

struct Arrange<'a, const W: usize> {
    instruction: Instruction,
    from: Matrix<'a>,
    first: usize,
    to: &'a mut [[u32; W]],
}

impl<const W: usize> NullaryFnOnce for Arrange<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let lanes = W.min(self.from.lanes - self.first);
        if lanes < W {
            self.to.as_flattened_mut().fill(0);
        }
        match self.from.steps {
            [1, _] if lanes == W => self.whole_rows(),
            [1, _] => self.rows(lanes),
            _ => self.lane_by_lane(lanes),
        }
    }
}

impl<'a, const W: usize> Arrange<'a, W> {
    /// Returns the values of two positions that are adjacent in depth, for all lanes.
    fn adjacent_rows(&self, pair: usize, lanes: usize) -> [&'a [bf16]; 2] {
        let Matrix {
            values, depth, steps, ..
        } = self.from;
        [2 * pair, 2 * pair + 1].map(|at| match at < depth {
            true => &values[at * steps[1] + self.first..][..lanes],
            false => &[],
        })
    }

    #[inline(always)]
    fn whole_rows(self) {
        let whole = self.from.depth / 2;
        for at in 0..whole {
            let [low, high] = self.adjacent_rows(at, W);
            let (low, high): (&[bf16; W], &[bf16; W]) = match (low.try_into(), high.try_into()) {
                (Ok(low), Ok(high)) => (low, high),
                _ => unreachable!("both slices have W lanes"),
            };
            for (to, (low, high)) in self.to[at].iter_mut().zip(low.iter().zip(high)) {
                *to = pair(*low, *high);
            }
        }
        if whole < self.to.len() {
            let [low, _] = self.adjacent_rows(whole, W);
            for (to, low) in self.to[whole].iter_mut().zip(low) {
                *to = pair(*low, bf16::ZERO);
            }
        }
    }

    #[inline(always)]
    fn rows(self, lanes: usize) {
        for at in 0..self.to.len() {
            let [low, high] = self.adjacent_rows(at, lanes);
            let high = high.iter().chain(std::iter::repeat(&bf16::ZERO));
            for (to, (low, high)) in self.to[at].iter_mut().zip(low.iter().zip(high)) {
                *to = pair(*low, *high);
            }
        }
    }

    /// Transposes one square of lanes and pairs at a time in registers. Lanes and pairs outside whole squares are copied one by one.
    #[inline(always)]
    fn lane_by_lane(self, lanes: usize) {
        let Matrix {
            values, depth, steps, ..
        } = self.from;
        let (first, instruction) = (self.first, self.instruction);
        let values_of_lane = |lane: usize| &values[(first + lane) * steps[0]..][..depth];
        for (block, to) in self.to.chunks_mut(LANES).enumerate() {
            let from = block * 2 * LANES;
            let until = depth.min(from + 2 * LANES);
            let mut lane = 0;
            let lanes_at_once = W.min(LANES);
            while until - from == 2 * LANES && lane + lanes_at_once <= lanes {
                let mut square = [[0; LANES]; LANES];
                for (row_index, row) in square[..lanes_at_once].iter_mut().enumerate() {
                    *row = bytemuck::pod_read_unaligned(bytemuck::cast_slice(
                        &values_of_lane(lane + row_index)[from..until],
                    ));
                }
                for (to, transposed) in to.iter_mut().zip(transpose_square(instruction, &square)) {
                    to[lane..lane + lanes_at_once].copy_from_slice(&transposed[..lanes_at_once]);
                }
                lane += lanes_at_once;
            }
            for lane in lane..lanes {
                let (pairs, remainder) = values_of_lane(lane)[from..until].as_chunks::<2>();
                for (to, [low, high]) in to.iter_mut().zip(pairs) {
                    to[lane] = pair(*low, *high);
                }
                if let [last] = remainder {
                    to[pairs.len()][lane] = pair(*last, bf16::ZERO);
                }
            }
        }
    }
}

#[inline(always)]
fn pair(low: bf16, high: bf16) -> u32 {
    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16_matmul::instruction::Square;

    #[test]
    fn squares_are_transposed() {
        let Some(instruction) = super::super::tests::instruction() else {
            return;
        };
        let square: Square =
            std::array::from_fn(|row| std::array::from_fn(|column| (100 * row + column) as u32));
        let transposed = transpose_square(instruction, &square);
        for (row, values) in transposed.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                assert_eq!(*value, (100 * column + row) as u32);
            }
        }
    }
}
