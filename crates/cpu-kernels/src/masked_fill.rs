//! Masked fill on all cores. The mask may be a broadcast view: its rows are read in place.

use burn::{
    backend::{
        TensorMetadata,
        ops::FloatTensorOps,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::ElementConversion,
};
use burn_flex::{Flex, FlexTensor};

use crate::{
    contiguous::{packed, row_offset},
    parallel_init::init_chunks,
    storage::{Stored, by_format, chunk_of_rows, contiguous_tensor, row_width},
};

/// Implements `PrecisionBackend::masked_fill` of `mantissa-precision`.
pub fn masked_fill(tensor: FloatTensor<Flex>, hidden: BoolTensor<Flex>, value: f64) -> FloatTensor<Flex> {
    let shape = tensor.shape();
    match hidden.dtype().size() == 1 && hidden.shape() == shape && shape.num_elements() > 0 {
        true => by_format!(tensor.dtype(), fill_rows(tensor, Mask::new(hidden), value)),
        false => Flex::float_mask_fill(tensor, hidden, value.into()),
    }
}

fn fill_rows<T: Stored>(tensor: FlexTensor, hidden: Mask, value: f64) -> FlexTensor {
    let (tensor, value) = (packed(tensor), value.elem::<T>());
    let n = row_width(&tensor.shape());
    let from = tensor.storage::<T>();
    let to = init_chunks(from.len(), chunk_of_rows(n), |range, to| {
        let first = range.start / n;
        to.copy_from_slice(&from[range]);
        for (row, to) in to.chunks_exact_mut(n).enumerate() {
            hidden.masked_fill(first + row, to, value);
        }
    });
    contiguous_tensor(to, tensor.shape())
}

/// Mask whose rows are read in place.
pub(crate) struct Mask(FlexTensor);

impl Mask {
    /// Creates a mask from a tensor with one byte per element.
    pub(crate) fn new(hidden: BoolTensor<Flex>) -> Self {
        assert_eq!(hidden.dtype().size(), 1, "a mask must have one byte per element");
        match hidden.layout().strides().iter().all(|stride| *stride >= 0) {
            true => Self(hidden),
            false => Self(hidden.to_contiguous()),
        }
    }

    /// Replaces the values of a row of the masked tensor where the same row of the mask is true.
    #[inline(always)]
    pub(crate) fn masked_fill<T: Copy>(&self, row: usize, values: &mut [T], value: T) {
        let (shape, layout) = (self.0.layout().shape(), self.0.layout());
        let Some((&step, strides)) = layout.strides().split_last() else {
            unreachable!("a mask has a last dimension");
        };
        let outer = &shape.as_slice()[..strides.len()];
        let mask = &self.0.bytes()[layout.start_offset() + row_offset(row, outer, strides)..];
        match step {
            0 => select(values, std::iter::repeat(&mask[0]), value),
            1 => select(values, &mask[..values.len()], value),
            step => select(values, mask.iter().step_by(step as usize), value),
        }
    }
}

#[inline(always)]
fn select<'a, T: Copy>(values: &mut [T], hidden: impl IntoIterator<Item = &'a u8>, value: T) {
    for (x, hidden) in values.iter_mut().zip(hidden) {
        *x = if *hidden != 0 { value } else { *x };
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Bool, DType, Device, Tensor, TensorData};

    use super::*;

    #[test]
    fn masked_fill_supports_every_broadcast_of_the_mask() {
        let device = Device::flex();
        // The larger shape takes one whole chunk and a partial one, which begins within a head.
        for shape in [[2, 3, 4, 5], [2, 7, 101, 24]] {
            check_masked_fill(shape, &device);
        }
    }

    fn check_masked_fill(shape: [usize; 4], device: &Device) {
        let [n, heads, rows, width] = shape;
        let mask = |dims: [usize; 4]| {
            let count = dims.iter().product();
            let hidden = (0..count).map(|at| at * 7 % 3 == 0).collect::<Vec<_>>();
            Tensor::<4, Bool>::from_data(TensorData::new(hidden, dims), device)
        };
        let masks = [
            mask(shape),
            mask([n, 1, 1, width]).expand(shape),
            mask([1, 1, rows, width]).expand(shape),
            mask([n, heads, rows, 1]).expand(shape),
            mask([n, heads, width, rows]).swap_dims(2, 3),
            mask([heads, n, rows, width]).swap_dims(0, 1),
            mask([n, heads, rows, width + 1]).narrow(3, 1, width),
            mask(shape).flip([3]),
        ];
        let count: usize = shape.iter().product();
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let values = Tensor::<1>::from_data(
                TensorData::new(
                    (0..count).map(|at| (at % 251 + 1) as f64).collect::<Vec<_>>(),
                    [count],
                ),
                (device, dtype),
            );
            for values in [
                values.clone().reshape(shape),
                values.clone().reshape([n, rows, heads, width]).swap_dims(1, 2),
            ] {
                for mask in &masks {
                    let list = |tensor: FlexTensor| {
                        Tensor::<4>::from_primitive::<Flex>(tensor)
                            .into_data()
                            .iter::<f64>()
                            .collect::<Vec<_>>()
                    };
                    let lowest = dtype.finfo().unwrap().min;
                    let hidden = mask.clone().try_into_primitive::<Flex>().unwrap();
                    let got = masked_fill(
                        values.clone().try_into_primitive::<Flex>().unwrap(),
                        hidden,
                        lowest,
                    );
                    let all = values.clone().into_data().iter::<f64>().collect::<Vec<_>>();
                    let mask = mask.clone().into_data().iter::<bool>().collect::<Vec<_>>();
                    let want = all
                        .iter()
                        .zip(mask)
                        .map(|(x, hidden)| if hidden { lowest } else { *x });
                    assert_eq!(list(got), want.collect::<Vec<_>>());
                }
            }
        }
    }
}
