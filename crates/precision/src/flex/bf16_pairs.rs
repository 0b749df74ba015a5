//! Products of bf16 matrices by the processor's own instruction (`vdpbf16ps` of AVX512-BF16): two products at a time are added to a sum
//! in f32. Each of the two is rounded to nearest even as it is added, and what is subnormal, as an operand or a sum, counts as zero; so
//! says Intel's manual, and so does PyTorch compute on these processors.
//!
//! Both factors are rearranged first, as the instruction reads them: strips of a few rows or columns, neighbours in depth side by side.
//! A strip of rows by one of columns is then a tile of sums that never leaves the registers.

use std::sync::{Arc, LazyLock};

use burn::tensor::{Bytes, DType, Shape, TensorMetadata, calculate_matmul_output};
use burn_flex::FlexTensor;
use half::bf16;
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::{
    buffers,
    stored::{Stored, contiguous},
};

/// Rows and columns of a tile: 24 registers of sums, and room for three of columns and one of rows.
const ROWS: usize = 8;
const COLUMNS: usize = 48;

/// Values of rows that are rearranged at a time: with a strip of columns they lie in a core's second cache.
const BLOCK: usize = 128 << 10;

/// Rows that are rearranged at a time at the most.
const MOST_ROWS: usize = 128;

/// That this processor has the instruction.
#[derive(Clone, Copy)]
pub(super) struct Instruction(());

impl Instruction {
    /// If it has, and nobody asked for what processors without it do.
    pub fn here() -> Option<Self> {
        static IS_HERE: LazyLock<bool> = LazyLock::new(|| {
            let left_out = std::env::var_os("MANTISSA_BF16_PRODUCTS").is_some_and(|how| how == "widened");
            is_in_processor() && !left_out
        });
        IS_HERE.then_some(Self(()))
    }
}

fn is_in_processor() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Batched, broadcasting product of bf16 tensors, shapes `[…, m, k] × […, k, n]`, its sums in f32 or rounded to bf16.
pub(super) fn product(with: Instruction, lhs: FlexTensor, rhs: FlexTensor, output: DType) -> FlexTensor {
    match output {
        DType::F32 => product_in::<f32>(with, lhs, rhs),
        DType::BF16 => product_in::<bf16>(with, lhs, rhs),
        other => unreachable!("sums of bf16 are no {other:?}"),
    }
}

fn product_in<T: Stored<Wide = f32>>(with: Instruction, lhs: FlexTensor, rhs: FlexTensor) -> FlexTensor {
    let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).expect("the caller's shapes fit");
    let rank = shape.num_dims();
    let [m, n] = [shape[rank - 2], shape[rank - 1]];
    let of_one = |tensor: &FlexTensor| {
        tensor.shape().num_elements() == tensor.shape()[rank - 2] * tensor.shape()[rank - 1]
    };
    let (lhs, rhs) = (readable(lhs), readable(rhs));
    let mut out = vec![T::default(); shape.num_elements()];
    if out.is_empty() || lhs.shape()[rank - 1] == 0 {
        return contiguous(out, shape);
    }
    if of_one(&rhs) && lhs.is_contiguous() {
        // All rows of a batch meet the same columns.
        let k = lhs.shape()[rank - 1];
        let rows = Matrix {
            values: &lhs.storage()[lhs.layout().start_offset()..],
            lanes: shape.num_elements() / n,
            depth: k,
            steps: [k, 1],
        };
        Columns::of_tensor(with, rhs).times(rows, &mut out, rayon::current_num_threads());
    } else {
        let [lhs_at, rhs_at] = [&lhs, &rhs].map(|tensor| places(tensor, &shape));
        let threads = rayon::current_num_threads().div_ceil(lhs_at.len());
        out.par_chunks_mut(m * n)
            .zip(lhs_at.par_iter().zip(&rhs_at))
            .for_each(|(out, (lhs_at, rhs_at))| {
                let columns = Columns::of(with, Matrix::of(&rhs, *rhs_at).turned());
                columns.times(Matrix::of(&lhs, *lhs_at), out, threads);
            });
    }
    contiguous(out, shape)
}

/// The tensor with rows or columns that lie side by side in memory.
fn readable(tensor: FlexTensor) -> FlexTensor {
    let strides = tensor.layout().strides();
    let side_by_side = strides.iter().rev().take(2).any(|stride| *stride == 1);
    if side_by_side && strides.iter().all(|stride| *stride >= 0) {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// Where the matrices of a batch begin, broadcast to the shape of a product.
fn places(tensor: &FlexTensor, shape: &Shape) -> Vec<usize> {
    let (own, strides) = (tensor.shape(), tensor.layout().strides());
    let mut places = vec![0];
    for dim in 0..shape.num_dims() - 2 {
        let step = if own[dim] == 1 { 0 } else { strides[dim] as usize };
        places = places
            .iter()
            .flat_map(|place| (0..shape[dim]).map(move |at| place + at * step))
            .collect();
    }
    places
}

/// A factor in memory: lanes (rows of the left, columns of the right one), and the depth that sums run over.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub values: &'a [bf16],
    pub lanes: usize,
    pub depth: usize,
    /// From a lane to the next, and along the depth; one of them is 1.
    pub steps: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// The rows of a matrix of a tensor's batch that begins so far behind the first.
    fn of(tensor: &'a FlexTensor, place: usize) -> Self {
        let (shape, layout) = (tensor.shape(), tensor.layout());
        let rank = shape.num_dims();
        Self {
            values: &tensor.storage()[layout.start_offset() + place..],
            lanes: shape[rank - 2],
            depth: shape[rank - 1],
            steps: [rank - 2, rank - 1].map(|dim| layout.strides()[dim] as usize),
        }
    }

    /// The columns of the same.
    fn turned(self) -> Self {
        let [lane, along] = self.steps;
        Self {
            lanes: self.depth,
            depth: self.lanes,
            steps: [along, lane],
            ..self
        }
    }

    /// Rearranges the `W` lanes from `first` on, as many as there are: `to` has for each pair of the depth the pairs of all lanes.
    fn arrange<const W: usize>(self, with: Instruction, first: usize, to: &mut [[u32; W]]) {
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
    /// Values of two neighbours in depth for all lanes.
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
                _ => unreachable!("both are W lanes"),
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

    /// A square of lanes and pairs at a time, which is turned in the registers; what is left at the edges goes pair by pair.
    #[inline(always)]
    fn lane_by_lane(self, lanes: usize) {
        let Matrix {
            values, depth, steps, ..
        } = self.from;
        let (first, with) = (self.first, self.with);
        let of_lane = |lane: usize| &values[(first + lane) * steps[0]..][..depth];
        for (block, to) in self.to.chunks_mut(EDGE).enumerate() {
            let from = block * 2 * EDGE;
            let until = depth.min(from + 2 * EDGE);
            let mut lane = 0;
            let together = W.min(EDGE);
            while until - from == 2 * EDGE && lane + together <= lanes {
                let mut square = [[0; EDGE]; EDGE];
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
                let (pairs, rest) = of_lane(lane)[from..until].as_chunks::<2>();
                for (to, [low, high]) in to.iter_mut().zip(pairs) {
                    to[lane] = pair(*low, *high);
                }
                if let [last] = rest {
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

/// Strips of so many lanes, a strip after the other, in a buffer.
fn strips<const W: usize>(buffer: &Arc<Bytes>, length: usize) -> &[[u32; W]] {
    &bytemuck::cast_slice::<u8, u32>(buffer).as_chunks().0[..length]
}

/// The columns of a right factor, rearranged.
pub(super) struct Columns {
    with: Instruction,
    buffer: Arc<Bytes>,
    count: usize,
    depth: usize,
}

impl Columns {
    /// Rearranges columns.
    pub fn of(with: Instruction, columns: Matrix<'_>) -> Self {
        let pairs = columns.depth.div_ceil(2);
        let strips = columns.lanes.div_ceil(COLUMNS);
        let buffer = buffers::filled(strips * pairs * COLUMNS, |values| {
            let values = bytemuck::cast_slice_mut::<f32, u32>(values).as_chunks_mut().0;
            values
                .par_chunks_mut(pairs)
                .enumerate()
                .for_each(|(strip, to)| columns.arrange::<COLUMNS>(with, strip * COLUMNS, to));
        });
        Self {
            with,
            buffer,
            count: columns.lanes,
            depth: columns.depth,
        }
    }

    /// The columns of a tensor `[depth, columns]`.
    pub fn of_tensor(with: Instruction, tensor: FlexTensor) -> Self {
        Self::of(with, Matrix::of(&readable(tensor), 0).turned())
    }

    /// Rows times these columns, shared by so many threads: `out` is `[rows, columns]`.
    pub fn times<T: Stored<Wide = f32>>(&self, rows: Matrix<'_>, out: &mut [T], threads: usize) {
        let (n, pairs) = (self.count, self.depth.div_ceil(2));
        let columns = strips::<COLUMNS>(&self.buffer, n.div_ceil(COLUMNS) * pairs);
        let in_cache = (BLOCK / self.depth / ROWS * ROWS).clamp(ROWS, MOST_ROWS);
        let share = (out.len() / n).div_ceil(threads);
        let together = in_cache.min(share.next_multiple_of(ROWS)).max(ROWS);
        out.par_chunks_mut(together * n)
            .enumerate()
            .for_each(|(block, out)| {
                let first = block * together;
                let count = (out.len() / n).div_ceil(ROWS);
                let buffer = buffers::filled(count * pairs * ROWS, |values| {
                    let values = bytemuck::cast_slice_mut::<f32, u32>(values).as_chunks_mut().0;
                    for (strip, to) in values.chunks_mut(pairs).enumerate() {
                        rows.arrange::<ROWS>(self.with, first + strip * ROWS, to);
                    }
                });
                let rows = strips::<ROWS>(&buffer, count * pairs);
                for (strip, columns) in columns.chunks(pairs).enumerate() {
                    let (left, width) = (strip * COLUMNS, COLUMNS.min(n - strip * COLUMNS));
                    for (rows, out) in rows.chunks(pairs).zip(out.chunks_mut(ROWS * n)) {
                        let sums = &tile(self.with, rows, columns);
                        Arch::new().dispatch(Write {
                            sums,
                            out,
                            n,
                            left,
                            width,
                        });
                    }
                }
            });
    }
}

/// Writes a tile into some rows of a product, from a column on.
struct Write<'a, T> {
    sums: &'a Tile,
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

/// The sum of the products of two rows of one length.
#[expect(unsafe_code, reason = "an instruction that not every processor has")]
pub(super) fn dot(_: Instruction, a: &[bf16], b: &[bf16]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is here.
    return unsafe { instruction::dot(a, b) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("no processor but these has it: {a:?} {b:?}")
}

type Tile = [[f32; COLUMNS]; ROWS];

/// Edge of a square of pairs.
const EDGE: usize = 16;

type Square = [[u32; EDGE]; EDGE];

/// A square whose rows are the columns of the given one.
#[expect(unsafe_code, reason = "instructions that not every processor has")]
fn turned(_: Instruction, square: &Square) -> Square {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: they are here.
    return unsafe { instruction::turned(square) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("no processor but these has it: {square:?}")
}

/// The sums of a strip of rows and one of columns.
#[expect(unsafe_code, reason = "an instruction that not every processor has")]
fn tile(_: Instruction, rows: &[[u32; ROWS]], columns: &[[u32; COLUMNS]]) -> Tile {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is here.
    return unsafe { instruction::tile(rows, columns) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("no processor but these has it: {rows:?} {columns:?}")
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "registers and arrays of the same bits")]
mod instruction {
    use std::{arch::x86_64::*, mem::transmute};

    use half::bf16;

    use super::{COLUMNS, EDGE, ROWS, Square, Tile};

    /// Values of a register.
    const LANES: usize = 16;

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn tile(rows: &[[u32; ROWS]], columns: &[[u32; COLUMNS]]) -> Tile {
        let mut sums = [[_mm512_setzero_ps(); COLUMNS / LANES]; ROWS];
        for (row, columns) in rows.iter().zip(columns) {
            // SAFETY: any bits are a value of the three types, and sizes agree.
            let columns: [__m512bh; COLUMNS / LANES] = unsafe { transmute(*columns) };
            // Written out: what is indexed by a variable does not stay in registers.
            macro_rules! add {
                ($($lane:literal)*) => { $(
                    // SAFETY: as above.
                    let pair: __m512bh = unsafe { transmute(_mm512_set1_epi32(row[$lane] as i32)) };
                    sums[$lane][0] = _mm512_dpbf16_ps(sums[$lane][0], pair, columns[0]);
                    sums[$lane][1] = _mm512_dpbf16_ps(sums[$lane][1], pair, columns[1]);
                    sums[$lane][2] = _mm512_dpbf16_ps(sums[$lane][2], pair, columns[2]);
                )* };
            }
            add!(0 1 2 3 4 5 6 7);
        }
        // SAFETY: as above.
        unsafe { transmute(sums) }
    }

    /// Neighbouring rows are zipped value by value and pair by pair, which turns squares of four; then these change places.
    #[target_feature(enable = "avx512f")]
    pub(super) fn turned(square: &Square) -> Square {
        // SAFETY: any bits are a value of both types, and sizes agree.
        let rows: [__m512i; EDGE] = unsafe { transmute(*square) };
        let mut values = rows;
        for at in (0..EDGE).step_by(2) {
            values[at] = _mm512_unpacklo_epi32(rows[at], rows[at + 1]);
            values[at + 1] = _mm512_unpackhi_epi32(rows[at], rows[at + 1]);
        }
        let mut fours = values;
        for at in (0..EDGE).step_by(4) {
            fours[at] = _mm512_unpacklo_epi64(values[at], values[at + 2]);
            fours[at + 1] = _mm512_unpackhi_epi64(values[at], values[at + 2]);
            fours[at + 2] = _mm512_unpacklo_epi64(values[at + 1], values[at + 3]);
            fours[at + 3] = _mm512_unpackhi_epi64(values[at + 1], values[at + 3]);
        }
        // The even and the odd quarters of two registers.
        let even = |a, b| _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
        let odd = |a, b| _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
        let mut columns = fours;
        for at in 0..4 {
            let [a, b, c, d] = [fours[at], fours[at + 4], fours[at + 8], fours[at + 12]];
            let (first_even, first_odd) = (even(a, b), odd(a, b));
            let (second_even, second_odd) = (even(c, d), odd(c, d));
            columns[at] = even(first_even, second_even);
            columns[at + 4] = even(first_odd, second_odd);
            columns[at + 8] = odd(first_even, second_even);
            columns[at + 12] = odd(first_odd, second_odd);
        }
        // SAFETY: as above.
        unsafe { transmute(columns) }
    }

    /// Registers of sums, so that one does not wait for itself.
    const SUMS: usize = 4;

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn dot(a: &[bf16], b: &[bf16]) -> f32 {
        let mut sums = [_mm512_setzero_ps(); SUMS];
        let mut add = |a: [bf16; 2 * LANES * SUMS], b: [bf16; 2 * LANES * SUMS]| {
            // SAFETY: any bits are a value of the three types, and sizes agree.
            let a: [__m512bh; SUMS] = unsafe { transmute(a) };
            let b: [__m512bh; SUMS] = unsafe { transmute(b) };
            for (sum, (a, b)) in sums.iter_mut().zip(a.into_iter().zip(b)) {
                *sum = _mm512_dpbf16_ps(*sum, a, b);
            }
        };
        let ((whole, rest), (other_whole, other_rest)) = (a.as_chunks(), b.as_chunks());
        for (a, b) in whole.iter().zip(other_whole) {
            add(*a, *b);
        }
        if !rest.is_empty() {
            let [mut a, mut b] = [[bf16::ZERO; 2 * LANES * SUMS]; 2];
            a[..rest.len()].copy_from_slice(rest);
            b[..rest.len()].copy_from_slice(&other_rest[..rest.len()]);
            add(a, b);
        }
        let [a, b, c, d] = sums;
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Tensor, TensorData};
    use burn_flex::Flex;

    use super::*;

    /// Tests of an instruction that is not everywhere.
    fn instruction() -> Option<Instruction> {
        let found = Instruction::here();
        let missing = "this processor has no AVX512-BF16".to_owned();
        mantissa_testing::is_there("avx512bf16", found.map(|_| ()).ok_or(missing));
        found
    }

    /// Whole numbers from -4 to 4: sums of a few thousand products are exact in f32, in any order.
    fn whole<const D: usize>(shape: [usize; D], seed: usize) -> Tensor<Flex, D> {
        let count: usize = shape.iter().product();
        let values = (0..count)
            .map(|at| (((at * 31 + seed) * 2_654_435_761) >> 7) % 9)
            .map(|x| x as f32 - 4.0);
        Tensor::from_data(
            TensorData::new(values.collect(), shape),
            (&Default::default(), DType::BF16),
        )
    }

    fn multiplied<const D: usize>(
        with: Instruction,
        lhs: Tensor<Flex, D>,
        rhs: Tensor<Flex, D>,
        output: DType,
    ) -> Vec<f32> {
        let [lhs, rhs] = [lhs, rhs].map(|tensor| tensor.into_primitive().tensor());
        let product = product(with, lhs, rhs, output);
        assert_eq!(product.dtype(), output);
        product.into_data().iter().collect()
    }

    /// The same by loops in f64.
    fn by_loops<const D: usize>(lhs: &Tensor<Flex, D>, rhs: &Tensor<Flex, D>) -> Vec<f32> {
        let shape = calculate_matmul_output(&lhs.shape(), &rhs.shape()).unwrap();
        let (m, n, k) = (shape[D - 2], shape[D - 1], lhs.dims()[D - 1]);
        let spread = |tensor: &Tensor<Flex, D>, rows, columns| {
            let mut dims = shape.clone();
            (dims[D - 2], dims[D - 1]) = (rows, columns);
            tensor
                .clone()
                .expand::<D, _>(dims)
                .into_data()
                .iter::<f64>()
                .collect::<Vec<_>>()
        };
        let (a, b) = (spread(lhs, m, k), spread(rhs, k, n));
        let value = |at: usize| {
            let (of, row, column) = (at / (m * n), at / n % m, at % n);
            (0..k)
                .map(|p| a[(of * m + row) * k + p] * b[(of * k + p) * n + column])
                .sum::<f64>() as f32
        };
        (0..shape.num_elements()).map(value).collect()
    }

    #[test]
    fn a_square_is_turned() {
        let Some(with) = instruction() else { return };
        let square: Square =
            std::array::from_fn(|row| std::array::from_fn(|column| (100 * row + column) as u32));
        let turned = turned(with, &square);
        for (row, values) in turned.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                assert_eq!(*value, (100 * column + row) as u32);
            }
        }
    }

    #[test]
    fn products_of_all_shapes_and_layouts_are_those_of_loops() {
        let Some(with) = instruction() else { return };
        for (m, k, n) in [
            (1, 1, 1),
            (8, 2, 48),
            (9, 3, 49),
            (7, 33, 47),
            (130, 257, 100),
            (300, 64, 1),
            (16, 1200, 97),
        ] {
            let (a, b) = (whole([m, k], 1), whole([k, n], 2));
            let (turned_a, turned_b) = (whole([k, m], 3).transpose(), whole([n, k], 4).transpose());
            for lhs in [&a, &turned_a] {
                for rhs in [&b, &turned_b] {
                    let product = multiplied(with, lhs.clone(), rhs.clone(), DType::F32);
                    assert_eq!(product, by_loops(lhs, rhs), "{m} × {k} × {n}");
                }
            }
        }
    }

    #[test]
    fn batches_are_broadcast_and_read_where_they_lie() {
        let Some(with) = instruction() else { return };
        let is_right = |lhs: Tensor<Flex, 4>, rhs: Tensor<Flex, 4>| {
            assert_eq!(
                multiplied(with, lhs.clone(), rhs.clone(), DType::F32),
                by_loops(&lhs, &rhs)
            );
        };
        // Heads of attention: positions are as far apart as a token is wide.
        let heads = |seed| whole([3, 17, 5, 8], seed).swap_dims(1, 2);
        is_right(heads(1), heads(2).transpose());
        is_right(heads(1).transpose(), heads(2));
        is_right(whole([3, 1, 9, 4], 1), whole([1, 5, 4, 50], 2));
        is_right(whole([3, 5, 9, 4], 1), whole([1, 1, 4, 50], 2));
        is_right(heads(1), whole([1, 1, 8, 20], 2));
        is_right(whole([1, 1, 9, 17], 1), heads(2));
        // Windows and every second row or column of something larger, and turned round.
        let large = whole([2, 2, 30, 40], 5);
        is_right(
            large.clone().narrow(2, 3, 11).narrow(3, 5, 16),
            heads(2).narrow(0, 0, 2).narrow(1, 1, 2).narrow(2, 0, 16),
        );
        let steps = large.slice(burn::tensor::s![.., .., 0..30;2, 0..32;2]);
        is_right(steps.clone(), whole([2, 2, 16, 3], 1));
        is_right(steps.flip([2, 3]), whole([2, 2, 16, 3], 1));
    }

    #[test]
    fn sums_in_bf16_are_rounded_once() {
        let Some(with) = instruction() else { return };
        let (a, b) = (whole([20, 999], 1), whole([999, 70], 2));
        let rounded: Vec<f32> = by_loops(&a, &b)
            .into_iter()
            .map(bf16::from_f32)
            .map(f32::from)
            .collect();
        assert_eq!(multiplied(with, a, b, DType::BF16), rounded);
    }

    #[test]
    fn what_is_not_finite_stays_in_its_row_and_column_and_subnormals_are_zero() {
        let Some(with) = instruction() else { return };
        let of = |values: Vec<f32>, shape| {
            Tensor::<Flex, 2>::from_data(TensorData::new(values, shape), (&Default::default(), DType::BF16))
        };
        let rows = of(
            vec![1.0, 2.0, 3.0, f32::INFINITY, 1.0, 1.0, 1.0, f32::NAN, 1.0],
            [3, 3],
        );
        let product = multiplied(with, rows, of(vec![1.0, 0.5, 0.0], [3, 1]), DType::F32);
        assert_eq!(product[..2], [2.0, f32::INFINITY]);
        assert!(product[2].is_nan());
        let smallest = f32::MIN_POSITIVE;
        let product = multiplied(
            with,
            of(vec![smallest, smallest / 2.0], [2, 1]),
            of(vec![1.0, 4.0], [1, 2]),
            DType::F32,
        );
        assert_eq!(product, [smallest, 4.0 * smallest, 0.0, 0.0]);
    }

    #[test]
    fn nothing_to_sum_is_zero() {
        let Some(with) = instruction() else { return };
        assert_eq!(
            multiplied(with, whole([2, 0], 1), whole([0, 3], 1), DType::F32),
            [0.0; 6]
        );
        assert_eq!(
            multiplied(with, whole([0, 2], 1), whole([2, 3], 1), DType::F32),
            [0.0; 0]
        );
    }
}
