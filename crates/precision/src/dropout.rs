//! Dropout whose masks do not depend on the division of a batch into micro-batches.

use std::cell::Cell;

use mantissa_cpu_kernels::DropoutMask;

/// Dropout with the probability `share`.
#[derive(Debug, Clone, Copy)]
pub struct Dropout<'a> {
    /// Probability of dropping an element, from 0 to less than 1.
    pub share: f64,
    /// Masks of the pass. If `None`, the masks are drawn from the random generator of the device.
    pub masks: Option<&'a DropoutMasks>,
}

/// Dropout masks of a forward pass over a micro-batch.
///
/// Each element of the mask is a hash of the seed, the layer, the number of the example in the training and the position in the example.
/// Therefore, masks do not depend on the size of the micro-batch, on the rank that computes it, or on the device.
#[derive(Debug)]
pub struct DropoutMasks {
    seed: u64,
    /// Number of the first example in the training.
    first_example: u64,
    examples: usize,
    /// Number of the next layer with dropout.
    layer: Cell<u64>,
}

impl DropoutMasks {
    /// Creates the masks of a micro-batch with this number of examples, of at most 2³² elements each. `first_example` is the number of the first one in the training. After
    /// 2³² examples, the masks repeat.
    pub fn new(seed: u64, first_example: u64, examples: usize) -> Self {
        Self {
            seed,
            first_example,
            examples,
            layer: Cell::new(0),
        }
    }

    /// Continues with the masks of a segment of the model. A segment has at most 2¹⁶ layers with dropout.
    pub fn start_segment(&self, segment: u32) {
        self.layer.set(u64::from(segment) << 16);
    }

    /// Returns the mask of the next layer, which keeps elements with this probability.
    pub(crate) fn next(&self, keep: f64) -> DropoutMask {
        let layer = self.layer.get();
        self.layer.set(layer + 1);
        let key = hash_seed(self.seed, layer);
        DropoutMask {
            examples: self.examples as u32,
            first_example: self.first_example as u32,
            key: [key as u32, (key >> 32) as u32],
            threshold: (keep * 2f64.powi(32)).round() as u32,
        }
    }
}

/// Hashes a seed and a number (finalizer of SplitMix64).
pub fn hash_seed(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::{Compute, Precision, dtype};

    #[test]
    fn the_gradient_is_dropped_and_scaled_like_the_input() {
        let device = Device::flex().autodiff();
        for precision in [
            Precision::True64,
            Precision::True32,
            Precision::TrueBf16,
            Precision::True16,
        ] {
            let format = dtype(precision.parameters());
            let input = Tensor::<2>::ones([4, 500], (&device, format)).require_grad();
            let masks = DropoutMasks::new(1, 0, 4);
            let dropout = Dropout {
                share: 0.25,
                masks: Some(&masks),
            };
            let output = Compute::from(precision).dropout(input.clone(), dropout);
            let gradients = output.clone().sum().backward();
            let list = |tensor: Tensor<2>| tensor.into_data().iter::<f64>().collect::<Vec<_>>();
            // The input is one everywhere, so the output equals the gradient of its sum.
            let output = list(output.inner());
            assert!(output.contains(&0.0) && output.iter().any(|value| *value > 1.0));
            // `assert_eq` would print every element.
            assert!(list(input.grad(&gradients).unwrap()) == output, "{precision}");
        }
    }

    #[test]
    fn layers_segments_and_seeds_have_different_masks() {
        let masks = DropoutMasks::new(1, 0, 4);
        let first = masks.next(0.5);
        assert_ne!(masks.next(0.5).key, first.key);
        masks.start_segment(1);
        assert_ne!(masks.next(0.5).key, first.key);
        masks.start_segment(0);
        assert_eq!(masks.next(0.5), first);
        assert_ne!(DropoutMasks::new(2, 0, 4).next(0.5).key, first.key);
        assert_eq!(first.threshold, 1 << 31);
    }
}
