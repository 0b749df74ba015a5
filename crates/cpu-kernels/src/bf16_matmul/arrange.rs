//! Operands of a matmul in memory, and their rearrangement: values adjacent in depth are adjacent in memory, and the pairs of all lanes of a
//! strip follow each other.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use half::bf16;
use pulp::{Arch, NullaryFnOnce};

use super::{
    Instruction,
    instruction::{LANES, turned},
};

/// Operand in memory: lanes (rows of the left, columns of the right operand), and the depth that sums run over.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub values: &'a [bf16],
    pub lanes: usize,
    pub depth: usize,
    /// Strides from a lane to the next, and along the depth; one of them is 1.
    pub steps: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// Returns the rows of the matrix at offset `place` in a tensor's batch.
    pub(super) fn of(tensor: &'a FlexTensor, place: usize) -> Self {
        let (shape, layout) = (tensor.shape(), tensor.layout());
        let rank = shape.num_dims();
        Self {
            values: &tensor.storage()[layout.start_offset() + place..],
            lanes: shape[rank - 2],
            depth: shape[rank - 1],
            steps: [rank - 2, rank - 1].map(|dim| layout.strides()[dim] as usize),
        }
    }

    /// Returns the columns of the same matrix.
    pub(super) fn turned(self) -> Self {
        let [lane, along] = self.steps;
        Self {
            lanes: self.depth,
            depth: self.lanes,
            steps: [along, lane],
            ..self
        }
    }

    /// Rearranges up to `W` lanes, starting at `first`: for each pair along the depth, `to` contains the pairs of all lanes.
    pub(super) fn arrange<const W: usize>(self, with: Instruction, first: usize, to: &mut [[u32; W]]) {
        Arch::new().dispatch(Arrange {
            with,
            from: self,
            first,
            to,
        });
    }
}

struct Arrange<'a, const W: usize> {
    with: Instruction,
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
    fn neighbours(&self, pair: usize, lanes: usize) -> [&'a [bf16]; 2] {
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
            let [low, high] = self.neighbours(at, W);
            let (low, high): (&[bf16; W], &[bf16; W]) = match (low.try_into(), high.try_into()) {
                (Ok(low), Ok(high)) => (low, high),
                _ => unreachable!("both slices have W lanes"),
            };
            for (to, (low, high)) in self.to[at].iter_mut().zip(low.iter().zip(high)) {
                *to = pair(*low, *high);
            }
        }
        if whole < self.to.len() {
            let [low, _] = self.neighbours(whole, W);
            for (to, low) in self.to[whole].iter_mut().zip(low) {
                *to = pair(*low, bf16::ZERO);
            }
        }
    }

    #[inline(always)]
    fn rows(self, lanes: usize) {
        for at in 0..self.to.len() {
            let [low, high] = self.neighbours(at, lanes);
            let high = high.iter().chain(std::iter::repeat(&bf16::ZERO));
            for (to, (low, high)) in self.to[at].iter_mut().zip(low.iter().zip(high)) {
                *to = pair(*low, *high);
            }
        }
    }

    /// Transposes a square of lanes and pairs at a time in registers. The remainder at the edges is processed pair by pair.
    #[inline(always)]
    fn lane_by_lane(self, lanes: usize) {
        let Matrix {
            values, depth, steps, ..
        } = self.from;
        let (first, with) = (self.first, self.with);
        let of_lane = |lane: usize| &values[(first + lane) * steps[0]..][..depth];
        for (block, to) in self.to.chunks_mut(LANES).enumerate() {
            let from = block * 2 * LANES;
            let until = depth.min(from + 2 * LANES);
            let mut lane = 0;
            let together = W.min(LANES);
            while until - from == 2 * LANES && lane + together <= lanes {
                let mut square = [[0; LANES]; LANES];
                for (place, row) in square[..together].iter_mut().enumerate() {
                    *row = bytemuck::pod_read_unaligned(bytemuck::cast_slice(
                        &of_lane(lane + place)[from..until],
                    ));
                }
                for (to, turned) in to.iter_mut().zip(turned(with, &square)) {
                    to[lane..lane + together].copy_from_slice(&turned[..together]);
                }
                lane += together;
            }
            for lane in lane..lanes {
                let (pairs, remainder) = of_lane(lane)[from..until].as_chunks::<2>();
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
    fn a_square_is_turned() {
        let Some(with) = super::super::tests::instruction() else {
            return;
        };
        let square: Square =
            std::array::from_fn(|row| std::array::from_fn(|column| (100 * row + column) as u32));
        let turned = turned(with, &square);
        for (row, values) in turned.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                assert_eq!(*value, (100 * column + row) as u32);
            }
        }
    }
}
