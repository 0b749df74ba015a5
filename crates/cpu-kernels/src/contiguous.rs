//! Contiguous copies. burn copies in tiles; here, a row that is contiguous in memory is copied as a whole, on all cores.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;

use crate::{
    parallel_init::init_chunks,
    storage::{Stored, by_format, chunk_of_rows, contiguous_tensor},
};

/// Returns the tensor as a contiguous one, whose buffer contains no other values.
pub fn packed(tensor: FlexTensor) -> FlexTensor {
    let (shape, layout) = (tensor.shape(), tensor.layout());
    let rows_are_whole = layout.strides().last() == Some(&1) && layout.has_positive_strides();
    match rows_are_whole && !layout.is_contiguous() && shape.num_elements() > 0 {
        true => by_format!(tensor.dtype(), copy_rows(tensor)),
        false => tensor.to_contiguous(),
    }
}

fn copy_rows<T: Stored>(tensor: FlexTensor) -> FlexTensor {
    let (shape, layout) = (tensor.shape(), tensor.layout());
    let from = &tensor.storage::<T>()[layout.start_offset()..];
    let Some((&width, outer)) = shape.as_slice().split_last() else {
        unreachable!("a tensor has a last dimension");
    };
    let to = init_chunks(
        shape.num_elements(),
        chunk_of_rows(width),
        |range, to: &mut [T]| {
            let first = range.start / width;
            for (row, to) in to.chunks_exact_mut(width).enumerate() {
                to.copy_from_slice(&from[row_offset(first + row, outer, layout.strides())..][..width]);
            }
        },
    );
    contiguous_tensor(to, shape)
}

/// Returns the tensor, copied if more than half of its buffer is unused. Call this before a whole buffer is processed.
pub(crate) fn trimmed(tensor: FlexTensor) -> FlexTensor {
    let width = tensor.dtype().size();
    if tensor.bytes().len() / width > 2 * tensor.layout().num_elements() {
        tensor.to_contiguous()
    } else {
        tensor
    }
}

/// Returns the offset of a row, given the sizes and strides of all dimensions but the last. Strides must not be negative.
pub(crate) fn row_offset(row: usize, outer: &[usize], strides: &[isize]) -> usize {
    let sizes = outer.iter().zip(strides).rev();
    let (_, offset) = sizes.fold((row, 0), |(row, offset), (&size, &stride)| {
        (row / size, offset + row % size * stride as usize)
    });
    offset
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Int, Tensor, s};
    use burn_flex::Flex;

    use super::*;

    #[test]
    fn packed_keeps_the_values_of_every_layout() {
        for dtype in [DType::F64, DType::F32, DType::BF16] {
            let device = Device::flex();
            let numbers = Tensor::<1, Int>::arange(0..3 * 4 * 5 * 6, &device).float();
            let whole = Tensor::<4>::from_data(numbers.reshape([3, 4, 5, 6]).into_data(), (&device, dtype));
            let layouts = [
                whole.clone(),
                whole.clone().swap_dims(1, 2),
                whole.clone().swap_dims(0, 2),
                whole.clone().swap_dims(2, 3),
                whole.clone().narrow(0, 1, 2),
                whole.clone().narrow(3, 2, 3).swap_dims(0, 1),
                whole.clone().slice(s![.., 0..4;2, .., ..]),
                whole.clone().flip([1]),
                whole.clone().narrow(2, 1, 1).expand([3, 4, 2, 6]),
                Tensor::empty([3, 0, 5, 6], (&device, dtype)).swap_dims(1, 2),
            ];
            for tensor in layouts {
                let packed = packed(tensor.clone().try_into_primitive::<Flex>().unwrap());
                assert!(packed.is_contiguous());
                assert_eq!(packed.bytes().len(), packed.shape().num_elements() * dtype.size());
                assert_eq!(
                    packed.into_data().iter::<f64>().collect::<Vec<_>>(),
                    tensor.into_data().iter::<f64>().collect::<Vec<_>>()
                );
            }
        }
    }
}
