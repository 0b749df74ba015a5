//! Normalization of the columns of a matrix, each with its own statistics, in one pass over memory: batch norm with running
//! statistics.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Arch, NullaryFnOnce};

use crate::{
    contiguous::packed,
    parallel_init::written,
    storage::{BLOCK, Stored, chunk_of_rows, contiguous},
};

/// Implements `PrecisionBackend::normalize_columns` of `mantissa-precision`.
pub(crate) fn normalize<T: Stored>(rows: FlexTensor, by: [FlexTensor; 4]) -> FlexTensor {
    let (rows, by) = (packed(rows), by.map(packed));
    let columns = rows.shape()[1].max(1);
    let from = rows.storage::<T>();
    // Several rows are processed as one long row, with repeated statistics.
    let together = (BLOCK / columns).max(1);
    let by = by.map(|values| values.storage::<T::Wide>().repeat(together));
    let to = written(from.len(), chunk_of_rows(together * columns), |these, to| {
        let from = &from[these];
        Arch::new().dispatch(Normalize { from, to, by: &by });
    });
    contiguous(to, rows.shape())
}

struct Normalize<'a, T: Stored> {
    from: &'a [T],
    to: &'a mut [T],
    by: &'a [Vec<T::Wide>; 4],
}

impl<T: Stored> NullaryFnOnce for Normalize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [mean, deviation, scale, shift] = self.by;
        let n = mean.len();
        let [mut before, mut after] = [(); 2].map(|()| vec![T::Wide::default(); n]);
        for (from, to) in self.from.chunks(n).zip(self.to.chunks_mut(n)) {
            let values = T::seen(from, &mut before);
            let by = mean.iter().zip(deviation).zip(scale.iter().zip(shift));
            let values = values.iter().zip(T::open(to, &mut after));
            for ((x, y), ((mean, deviation), (scale, shift))) in values.zip(by) {
                *y = (*x - *mean) / *deviation * *scale + *shift;
            }
            T::settle(&after, to);
        }
    }
}
