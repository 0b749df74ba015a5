//! Parallel initialization of result buffers. `vec![0; n]` writes zeros on one core, in a separate pass over memory. It does so for 16-bit
//! formats, and for f32 and f64 if the allocator has no zeroed pages. This pass can take as long as the operation itself. Here, the core
//! that writes a chunk zeroes it first, so that the chunk is in the cache.

use std::{mem::MaybeUninit, ops::Range, slice::from_raw_parts_mut};

use rayon::prelude::*;

/// Returns `count` values, which `write` computes chunk by chunk on all cores. `write` receives the range and the slice of a chunk, which
/// contains zeros.
pub(crate) fn init_chunks<T: Copy + Default + Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    init_chunks_with(count, chunk, write).0
}

/// Like [`init_chunks`], and also returns the result of `write` for each chunk, in order.
#[expect(unsafe_code, reason = "initializes spare capacity")]
pub(crate) fn init_chunks_with<T: Copy + Default + Send, R: Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(Range<usize>, &mut [T]) -> R + Sync,
) -> (Vec<T>, Vec<R>) {
    let (mut values, chunk) = (Vec::with_capacity(count), chunk.max(1));
    let results = values.spare_capacity_mut()[..count]
        .par_chunks_mut(chunk)
        .enumerate()
        .map(|(index, slice)| {
            slice.fill(MaybeUninit::new(T::default()));
            // SAFETY: all values are initialized now, and no other reference to them exists.
            let slice = unsafe { from_raw_parts_mut(slice.as_mut_ptr().cast(), slice.len()) };
            let first = index * chunk;
            write(first..first + slice.len(), slice)
        })
        .collect();
    // SAFETY: the chunks cover the buffer, and each has been initialized.
    unsafe { values.set_len(count) };
    (values, results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_written_and_results_are_in_order() {
        for (count, chunk) in [(0, 1), (0, 0), (1, 7), (7, 7), (8, 7), (1000, 3), (5, 0)] {
            let (values, firsts) = init_chunks_with(count, chunk, |range, to: &mut [usize]| {
                assert!(to.iter().all(|value| *value == 0));
                for (value, at) in to.iter_mut().zip(range.clone()) {
                    *value = 2 * at + 1;
                }
                range.start
            });
            let wanted: Vec<_> = (0..count).map(|at| 2 * at + 1).collect();
            assert_eq!(values, wanted, "{count} by {chunk}");
            let starts: Vec<_> = (0..count).step_by(chunk.max(1)).collect();
            assert_eq!(firsts, starts, "{count} by {chunk}");
        }
    }

    #[test]
    fn unwritten_values_are_zero() {
        assert_eq!(init_chunks(5, 2, |_, _: &mut [f32]| {}), [0.0; 5]);
    }
}
