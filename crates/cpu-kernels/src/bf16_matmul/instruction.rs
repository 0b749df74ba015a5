//! The instruction `vdpbf16ps`, and the functions that call it.

use std::sync::LazyLock;

use half::bf16;

/// f32 values per register.
pub(super) const LANES: usize = 16;

/// Rows of a tile of sums.
pub(super) const ROWS: usize = 8;

/// Proof that this processor has the instruction.
#[derive(Clone, Copy)]
pub struct Instruction(());

impl Instruction {
    /// Returns the proof, or `None` if the processor lacks the instruction or the user disabled it with
    /// `MANTISSA_BF16_PRODUCTS=widened`.
    pub fn detect() -> Option<Self> {
        static IS_AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
            let disabled = std::env::var_os("MANTISSA_BF16_PRODUCTS").is_some_and(|value| value == "widened");
            is_supported() && !disabled
        });
        IS_AVAILABLE.then_some(Self(()))
    }
}

fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes the dot product of each row with `values`; all slices have the same length.
#[expect(unsafe_code, reason = "intrinsics of an optional instruction set")]
pub(crate) fn dots<const N: usize>(_: Instruction, rows: [&[bf16]; N], values: &[bf16]) -> [f32; N] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the instruction.
    return unsafe { intrinsics::dots(rows, values) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("only x86-64 has this instruction: {rows:?} {values:?}")
}

pub(super) type Square = [[u32; LANES]; LANES];

/// Transposes a square of 32-bit values.
#[expect(unsafe_code, reason = "intrinsics of an optional instruction set")]
pub(super) fn transpose_square(_: Instruction, square: &Square) -> Square {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the instructions.
    return unsafe { intrinsics::transpose_square(square) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("only x86-64 has this instruction: {square:?}")
}

/// Memory layout of rows: a row consists of parts of equal length, `part_step` bytes apart, and the pairs of a part are `step` bytes
/// apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pairs<'a> {
    pub bytes: &'a [u8],
    /// Pairs per part.
    pub count: usize,
    pub step: usize,
    pub part_step: usize,
}

/// Dot products of [`ROWS`] rows with `R` registers of columns.
pub(super) type Tile<const R: usize> = [[[f32; LANES]; R]; ROWS];

/// Multiplies [`ROWS`] rows, each at a byte offset, with a strip of `R` registers of columns. `R` is at most 3.
#[expect(unsafe_code, reason = "intrinsics of an optional instruction set")]
pub(super) fn tile<const R: usize>(
    _: Instruction,
    rows: &Pairs<'_>,
    offsets: [usize; ROWS],
    columns: &[[[u32; LANES]; R]],
) -> Tile<R> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the instruction.
    return unsafe { intrinsics::tile(rows, offsets, columns) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("only x86-64 has this instruction: {rows:?} {offsets:?} {columns:?}")
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "converts between registers and arrays")]
mod intrinsics {
    use std::{arch::x86_64::*, mem::transmute};

    use half::bf16;

    use super::{LANES, Pairs, ROWS, Square, Tile};

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn tile<const R: usize>(
        rows: &Pairs<'_>,
        offsets: [usize; ROWS],
        columns: &[[[u32; LANES]; R]],
    ) -> Tile<R> {
        let mut sums = [[_mm512_setzero_ps(); R]; ROWS];
        for (part, columns) in columns.chunks_exact(rows.count).enumerate() {
            let length = (rows.count - 1) * rows.step + size_of::<u32>();
            let lanes = offsets.map(|offset| rows.bytes[offset + part * rows.part_step..][..length].as_ptr());
            for (at, columns) in columns.iter().enumerate() {
                // SAFETY: all bit patterns are valid for both types, and their sizes are equal.
                let register = |values: [u32; LANES]| unsafe { transmute::<[u32; LANES], __m512bh>(values) };
                let first = register(columns[0]);
                let second = register(columns[if R > 1 { 1 } else { 0 }]);
                let third = register(columns[if R > 2 { 2 } else { 0 }]);
                // Unrolled by hand, one row after the other. Otherwise the compiler spills arrays with a variable index, and values that
                // several rows depend on, from registers to memory.
                macro_rules! add {
                    ($($lane:literal)*) => { $(
                        // SAFETY: each row has a pair for every element of `columns`, and all bit patterns are valid
                        // pairs.
                        let pair: __m512bh = unsafe {
                            let pair = lanes[$lane].add(at * rows.step).cast::<i32>();
                            transmute(_mm512_set1_epi32(pair.read_unaligned()))
                        };
                        sums[$lane][0] = _mm512_dpbf16_ps(sums[$lane][0], pair, first);
                        if R > 1 {
                            sums[$lane][1] = _mm512_dpbf16_ps(sums[$lane][1], pair, second);
                        }
                        if R > 2 {
                            sums[$lane][2] = _mm512_dpbf16_ps(sums[$lane][2], pair, third);
                        }
                    )* };
                }
                add!(0 1 2 3 4 5 6 7);
            }
        }
        let mut tile = [[[0.0; LANES]; R]; ROWS];
        macro_rules! store {
            ($register:literal: $($lane:literal)*) => { if $register < R { $(
                // SAFETY: all bit patterns are valid for both types, and their sizes are equal.
                tile[$lane][$register] = unsafe { transmute::<__m512, [f32; LANES]>(sums[$lane][$register]) };
            )* } };
        }
        store!(0: 0 1 2 3 4 5 6 7);
        store!(1: 0 1 2 3 4 5 6 7);
        store!(2: 0 1 2 3 4 5 6 7);
        tile
    }

    /// Interleaves adjacent rows value by value and pair by pair, which transposes squares of 4 × 4. Then swaps these
    /// squares.
    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose_square(square: &Square) -> Square {
        // SAFETY: all bit patterns are valid for both types, and their sizes are equal.
        let rows: [__m512i; LANES] = unsafe { transmute(*square) };
        let mut values = rows;
        for at in (0..LANES).step_by(2) {
            values[at] = _mm512_unpacklo_epi32(rows[at], rows[at + 1]);
            values[at + 1] = _mm512_unpackhi_epi32(rows[at], rows[at + 1]);
        }
        let mut fours = values;
        for at in (0..LANES).step_by(4) {
            fours[at] = _mm512_unpacklo_epi64(values[at], values[at + 2]);
            fours[at + 1] = _mm512_unpackhi_epi64(values[at], values[at + 2]);
            fours[at + 2] = _mm512_unpacklo_epi64(values[at + 1], values[at + 3]);
            fours[at + 3] = _mm512_unpackhi_epi64(values[at + 1], values[at + 3]);
        }
        // Even and odd quarters of two registers.
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

    /// Accumulators per row: independent dependency chains hide the latency of the instruction.
    const SUMS_PER_ROW: usize = 4;

    /// bf16 values per register.
    const VALUES_PER_REGISTER: usize = 2 * LANES;

    /// Prefetch distance in values: 4 KiB.
    const PREFETCH_DISTANCE: usize = 2048;

    /// Computes the dot product of each row with `values`, in an order that does not depend on the number of rows. Prefetches `values` (the
    /// weights), which are streamed from memory. The rows stay in the caches.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn dots<const N: usize>(rows: [&[bf16]; N], values: &[bf16]) -> [f32; N] {
        let add = |sum: &mut __m512, a: [bf16; VALUES_PER_REGISTER], b: [bf16; VALUES_PER_REGISTER]| {
            // SAFETY: all bit patterns are valid for both types, and their sizes are equal.
            let [a, b] =
                [a, b].map(|values| unsafe { transmute::<[bf16; VALUES_PER_REGISTER], __m512bh>(values) });
            *sum = _mm512_dpbf16_ps(*sum, a, b);
        };
        let mut sums = [[_mm512_setzero_ps(); SUMS_PER_ROW]; N];
        let (whole, rest) = values.as_chunks::<{ VALUES_PER_REGISTER * SUMS_PER_ROW }>();
        let rows = rows.map(|row| {
            let (of_row, rest_of_row) = row.as_chunks::<{ VALUES_PER_REGISTER * SUMS_PER_ROW }>();
            (&of_row[..whole.len()], &rest_of_row[..rest.len()])
        });
        for (at, values) in whole.iter().enumerate() {
            let (values, _) = values.as_chunks::<VALUES_PER_REGISTER>();
            for register in values {
                // A prefetch of an invalid address has no effect.
                _mm_prefetch::<_MM_HINT_T0>(register.as_ptr().wrapping_add(PREFETCH_DISTANCE).cast());
            }
            for (sums, (row, _)) in sums.iter_mut().zip(rows) {
                let (row, _) = row[at].as_chunks();
                for ((sum, a), b) in sums.iter_mut().zip(row).zip(values) {
                    add(sum, *a, *b);
                }
            }
        }
        let (whole, last) = rest.as_chunks();
        let padded = |values: &[bf16]| {
            let mut register = [bf16::ZERO; VALUES_PER_REGISTER];
            register[..last.len()].copy_from_slice(values);
            register
        };
        for (sums, (_, row)) in sums.iter_mut().zip(rows) {
            let (of_row, last_of_row) = row.as_chunks();
            for ((sum, a), b) in sums.iter_mut().zip(of_row).zip(whole) {
                add(sum, *a, *b);
            }
            if !last.is_empty() {
                add(&mut sums[SUMS_PER_ROW - 1], padded(last_of_row), padded(last));
            }
        }
        let all = |[a, b, c, d]: [__m512; SUMS_PER_ROW]| {
            _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)))
        };
        sums.map(all)
    }
}
