//! Columns of a matrix, each normalised by numbers of its own, in one pass over memory: batch norm with running statistics.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::{
    convert::CHUNK,
    packed::packed,
    stored::{Stored, by_format, contiguous},
};

/// `(x − mean) / deviation · scale + shift` of `[rows, columns]`, each number of a column `[columns]`; all of one format.
pub(super) fn normalize(rows: FlexTensor, by: [FlexTensor; 4]) -> FlexTensor {
    by_format!(rows.dtype(), normalize_in(rows, by))
}

fn normalize_in<T: Stored>(rows: FlexTensor, by: [FlexTensor; 4]) -> FlexTensor {
    let (rows, by) = (packed(rows), by.map(packed));
    let columns = rows.shape()[1];
    let from = rows.storage::<T>();
    let wide = |values: &FlexTensor| {
        let mut wide = vec![T::Wide::default(); columns];
        T::widen(&values.storage::<T>()[..columns], &mut wide);
        wide
    };
    let by = [wide(&by[0]), wide(&by[1]), wide(&by[2]), wide(&by[3])];
    let mut to = vec![T::default(); rows.shape().num_elements()];
    let chunk = (CHUNK / columns.max(1)).max(1) * columns.max(1);
    to.par_chunks_mut(chunk)
        .zip(from.par_chunks(chunk))
        .for_each(|(to, from)| Arch::new().dispatch(Normalize { from, to, by: &by }));
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
        let columns = mean.len();
        let mut lanes = vec![T::Wide::default(); columns];
        let rows = self.from.chunks_exact(columns);
        for (from, to) in rows.zip(self.to.chunks_exact_mut(columns)) {
            T::widen(from, &mut lanes);
            let by = mean.iter().zip(deviation).zip(scale.iter().zip(shift));
            for (x, ((mean, deviation), (scale, shift))) in lanes.iter_mut().zip(by) {
                *x = (*x - *mean) / *deviation * *scale + *shift;
            }
            T::narrow(&lanes, to);
        }
    }
}
