//! Dropout masks. Whether an element is kept depends only on the seed, the layer, the example and the position in the example.

use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::ElementConversion,
};
use burn_flex::{Flex, FlexTensor};
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::{
    contiguous::packed,
    parallel_init::init_chunks,
    storage::{CHUNK, Stored, by_format, contiguous_tensor},
};

/// Mask of a dropout layer for a micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropoutMask {
    /// Number of examples of the micro-batch. Its elements are stored example by example.
    pub examples: u32,
    /// Number of the first example in the training, modulo 2³².
    pub first_example: u32,
    /// Hash of the seed and the layer.
    pub key: [u32; 2],
    /// An element is kept if its random number is less than this threshold.
    pub threshold: u32,
}

impl DropoutMask {
    /// Returns the number of elements per example of a tensor. If the examples cannot have equally many elements, all elements count as one
    /// example.
    pub fn elements_per_example(&self, elements: usize) -> usize {
        let examples = self.examples.max(1) as usize;
        if elements.is_multiple_of(examples) {
            elements / examples
        } else {
            elements
        }
    }

    /// Returns true if an element of an example is kept.
    #[inline(always)]
    fn keeps(&self, element: u32, example: u32) -> bool {
        random(element, example, self.key) < self.threshold
    }
}

/// Computes the first word of pcg4d, a hash of four words (Jarzynski and Olano, Hash Functions for GPU Rendering, 2020).
#[inline(always)]
fn random(x: u32, y: u32, [z, w]: [u32; 2]) -> u32 {
    let [mut x, mut y, mut z, mut w] =
        [x, y, z, w].map(|word| word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    x = x.wrapping_add(y.wrapping_mul(w));
    y = y.wrapping_add(z.wrapping_mul(x));
    z = z.wrapping_add(x.wrapping_mul(y));
    w = w.wrapping_add(y.wrapping_mul(z));
    let [x, y, w] = [x, y, w].map(|word| word ^ (word >> 16));
    x.wrapping_add(y.wrapping_mul(w))
}

/// Replaces the elements that `mask` drops by 0, in place if nothing else uses the buffer.
pub fn zero_dropped(tensor: FloatTensor<Flex>, mask: DropoutMask) -> FloatTensor<Flex> {
    by_format!(tensor.dtype(), zero(tensor, mask))
}

fn zero<T: Stored>(tensor: FlexTensor, mask: DropoutMask) -> FlexTensor {
    let mut tensor = packed(tensor);
    let elements = tensor.shape().num_elements();
    let per_example = mask.elements_per_example(elements);
    let zero = |first, values: &mut [T]| {
        Arch::new().dispatch(Zero {
            values,
            first,
            per_example,
            mask,
        });
    };
    if tensor.is_unique() && tensor.storage::<T>().len() == elements {
        let chunks = tensor.storage_mut::<T>().par_chunks_mut(CHUNK);
        let chunks = chunks.enumerate();
        chunks.for_each(|(index, values)| zero(index * CHUNK, values));
        return tensor;
    }
    let from = tensor.storage::<T>();
    let to = init_chunks(elements, CHUNK, |range, to| {
        to.copy_from_slice(&from[range.clone()]);
        zero(range.start, to);
    });
    contiguous_tensor(to, tensor.shape())
}

/// Replaces dropped elements of a part of a tensor. `first` is the position of the part.
struct Zero<'a, T> {
    values: &'a mut [T],
    first: usize,
    per_example: usize,
    mask: DropoutMask,
}

impl<T: Stored> NullaryFnOnce for Zero<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (mut rest, mut position) = (self.values, self.first);
        while !rest.is_empty() {
            let (example, element) = (position / self.per_example, position % self.per_example);
            let (values, others) = rest.split_at_mut((self.per_example - element).min(rest.len()));
            let example = self.mask.first_example.wrapping_add(example as u32);
            for (offset, value) in values.iter_mut().enumerate() {
                let is_kept = self.mask.keeps((element + offset) as u32, example);
                *value = if is_kept { *value } else { 0.elem() };
            }
            position += values.len();
            rest = others;
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Tensor};

    use super::*;

    /// Number of values of [`ones`] per example.
    const PER_EXAMPLE: usize = 3 * 7001;

    fn mask(examples: u32, first_example: u32) -> DropoutMask {
        DropoutMask {
            examples,
            first_example,
            key: [5, 6],
            threshold: (0.75 * 2f64.powi(32)) as u32,
        }
    }

    fn ones(examples: usize, dtype: DType) -> FlexTensor {
        let ones = Tensor::<3>::ones([examples, 3, 7001], (&Device::flex(), dtype));
        ones.try_into_primitive::<Flex>().unwrap()
    }

    fn values_of(tensor: FlexTensor) -> Vec<f64> {
        let data = Tensor::<3>::from_primitive::<Flex>(tensor).into_data();
        data.iter::<f64>().collect()
    }

    #[test]
    fn random_numbers_are_those_of_pcg4d() {
        // Computed with Python's integers.
        for ([x, y, z, w], wanted) in [
            ([0, 0, 0, 0], 251_852_841),
            ([1, 0, 0, 0], 188_542_915),
            ([0, 1, 0, 0], 714_961_320),
            ([0, 0, 1, 0], 786_066_589),
            ([0, 0, 0, 1], 2_376_007_650),
            ([12345, 678, 0xdead_beef, 0xffff_ffff], 3_318_392_893),
        ] {
            assert_eq!(random(x, y, [z, w]), wanted);
        }
    }

    #[test]
    fn masks_depend_on_the_example_and_not_on_the_micro_batch() {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let whole = values_of(zero_dropped(ones(6, dtype), mask(6, 10)));
            let first = values_of(zero_dropped(ones(4, dtype), mask(4, 10)));
            let second = values_of(zero_dropped(ones(2, dtype), mask(2, 14)));
            assert!([first, second].concat() == whole, "{dtype:?}");
            let (one, other) = whole.split_at(PER_EXAMPLE);
            assert!(one != &other[..PER_EXAMPLE], "{dtype:?}");
        }
    }

    #[test]
    fn the_share_of_kept_elements_is_the_probability() {
        for key in 0..8 {
            let mask = DropoutMask {
                key: [key, 1],
                ..mask(6, 0)
            };
            let values = values_of(zero_dropped(ones(6, DType::F32), mask));
            let n = values.len() as f64;
            assert!(values.iter().all(|value| [0.0, 1.0].contains(value)));
            // Five standard deviations.
            let tolerance = 5.0 * (0.75 * 0.25 / n).sqrt();
            let share = values.iter().sum::<f64>() / n;
            assert!((share - 0.75).abs() < tolerance, "{share}");
        }
    }

    #[test]
    fn results_are_written_in_place_unless_the_tensor_is_shared() {
        let tensor = ones(2, DType::BF16);
        let address = tensor.bytes().as_ptr();
        let copy = zero_dropped(tensor.clone(), mask(2, 0));
        assert_ne!(copy.bytes().as_ptr(), address);
        assert_eq!(values_of(tensor.clone()), vec![1.0; 2 * PER_EXAMPLE]);
        let in_place = zero_dropped(tensor, mask(2, 0));
        assert_eq!(in_place.bytes().as_ptr(), address);
        assert!(values_of(in_place) == values_of(copy));
    }

    #[test]
    fn views_are_masked_in_their_own_order() {
        let device = Device::flex();
        let swapped = Tensor::<3>::ones([4, 6, 5], &device).swap_dims(0, 1);
        let swapped = swapped.try_into_primitive::<Flex>().unwrap();
        let contiguous = Tensor::<3>::ones([6, 4, 5], &device);
        let contiguous = contiguous.try_into_primitive::<Flex>().unwrap();
        assert_eq!(
            values_of(zero_dropped(swapped, mask(6, 0))),
            values_of(zero_dropped(contiguous, mask(6, 0)))
        );
    }

    #[test]
    fn unequal_examples_count_as_one() {
        assert_eq!(mask(4, 0).elements_per_example(12), 3);
        assert_eq!(mask(5, 0).elements_per_example(12), 12);
        assert_eq!(mask(0, 0).elements_per_example(12), 12);
    }
}
