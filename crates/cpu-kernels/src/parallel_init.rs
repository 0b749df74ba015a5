//! Parallel initialization of result buffers. `vec![0; n]` writes zeros on one core, in a separate pass over memory (for 16-bit formats;
//! for f32 and f64 if the allocator does not have zeroed pages), which takes as long as many operations. Here each chunk is zeroed by the
//! core that then writes it, while it is in the cache.

use std::{mem::MaybeUninit, ops::Range, slice::from_raw_parts_mut};

use rayon::prelude::*;

/// Returns `count` values, written chunk by chunk on all cores. `write` receives the range and the slice of a chunk.
pub(crate) fn written<T: Copy + Default + Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    written_with(count, chunk, write).0
}

/// Also returns the result of each chunk, in order.
#[expect(unsafe_code, reason = "initializes spare capacity")]
pub(crate) fn written_with<T: Copy + Default + Send, R: Send>(
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
            // SAFETY: all values are initialized now, and no other reference to them exists.
            let place = unsafe { from_raw_parts_mut(place.as_mut_ptr().cast(), place.len()) };
            let first = at * chunk;
            write(first..first + place.len(), place)
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
    fn unwritten_values_are_zero() {
        assert_eq!(written(5, 2, |_, _: &mut [f32]| {}), [0.0; 5]);
    }
}
