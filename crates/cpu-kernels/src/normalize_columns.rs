//! Normalization of the columns of a matrix, each with its own statistics, in one pass over memory: batch norm with running
//! statistics.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Arch, NullaryFnOnce};

use crate::{
    contiguous::packed,
    parallel_init::init_chunks,
    storage::{BLOCK, Stored, chunk_of_rows, contiguous_tensor},
};

/// Implements `PrecisionBackend::normalize_columns` of `mantissa-precision`.
pub(crate) fn normalize<T: Stored>(rows: FlexTensor, statistics: [FlexTensor; 4]) -> FlexTensor {
    let (rows, statistics) = (packed(rows), statistics.map(packed));
    let columns = rows.shape()[1].max(1);
    let from = rows.storage::<T>();
    // Several rows are processed as one long row, with repeated statistics.
    let rows_at_once = (BLOCK / columns).max(1);
    let statistics = statistics.map(|values| values.storage::<T::Wide>().repeat(rows_at_once));
    let to = init_chunks(from.len(), chunk_of_rows(rows_at_once * columns), |range, to| {
        let from = &from[range];
        Arch::new().dispatch(Normalize {
            from,
            to,
            statistics: &statistics,
        });
    });
    contiguous_tensor(to, rows.shape())
}

struct Normalize<'a, T: Stored> {
    from: &'a [T],
    to: &'a mut [T],
    statistics: &'a [Vec<T::Wide>; 4],
}

impl<T: Stored> NullaryFnOnce for Normalize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [mean, deviation, scale, shift] = self.statistics;
        let n = mean.len();
        let [mut before, mut after] = [(); 2].map(|()| vec![T::Wide::default(); n]);
        for (from, to) in self.from.chunks(n).zip(self.to.chunks_mut(n)) {
            let values = T::to_wide(from, &mut before);
            let statistics = mean.iter().zip(deviation).zip(scale.iter().zip(shift));
            let values = values.iter().zip(T::wide_output(to, &mut after));
            for ((x, y), ((mean, deviation), (scale, shift))) in values.zip(statistics) {
                *y = (*x - *mean) / *deviation * *scale + *shift;
            }
            T::store(&after, to);
        }
    }
}
