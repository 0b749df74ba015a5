//! Results in memory that is new. Rust's way to it lays down zeros on one core, in a pass over memory of its own (of halves; of f32 and f64
//! where the allocator has no pages that are zero), which is as long as many an operation: here each chunk is filled by the core that
//! writes it then, and in its cache.

use std::{mem::MaybeUninit, ops::Range, slice::from_raw_parts_mut};

use rayon::prelude::*;

/// As many values as `count`, written chunk by chunk on all cores; `write` is given which of the values a chunk is, and the chunk.
pub(super) fn written<T: Copy + Default + Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    written_with(count, chunk, write).0
}

/// The same with what comes of each chunk, in their order.
#[expect(unsafe_code, reason = "memory that nothing is in yet")]
pub(super) fn written_with<T: Copy + Default + Send, R: Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(Range<usize>, &mut [T]) -> R + Sync,
) -> (Vec<T>, Vec<R>) {
    let (mut values, chunk) = (Vec::with_capacity(count), chunk.max(1));
    let results = values.spare_capacity_mut()[..count]
        .par_chunks_mut(chunk)
        .enumerate()
        .map(|(at, place)| {
            place.fill(MaybeUninit::new(T::default()));
            // SAFETY: these are values now, and nobody else has them.
            let place = unsafe { from_raw_parts_mut(place.as_mut_ptr().cast(), place.len()) };
            let first = at * chunk;
            write(first..first + place.len(), place)
        })
        .collect();
    // SAFETY: the chunks are all of them, and each has been filled.
    unsafe { values.set_len(count) };
    (values, results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_written_once_and_results_come_in_order() {
        for (count, chunk) in [(0, 1), (0, 0), (1, 7), (7, 7), (8, 7), (1000, 3), (5, 0)] {
            let (values, firsts) = written_with(count, chunk, |these, to: &mut [usize]| {
                assert!(to.iter().all(|value| *value == 0));
                for (value, at) in to.iter_mut().zip(these.clone()) {
                    *value = 2 * at + 1;
                }
                these.start
            });
            let wanted: Vec<_> = (0..count).map(|at| 2 * at + 1).collect();
            assert_eq!(values, wanted, "{count} by {chunk}");
            let starts: Vec<_> = (0..count).step_by(chunk.max(1)).collect();
            assert_eq!(firsts, starts, "{count} by {chunk}");
        }
    }

    #[test]
    fn what_is_not_written_is_zero() {
        assert_eq!(written(5, 2, |_, _: &mut [f32]| {}), [0.0; 5]);
    }
}
