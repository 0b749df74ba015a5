//! ReLU and addition, on all cores.

use burn_flex::FlexTensor;
use num_traits::Zero;

use crate::{
    map::{map, zip},
    storage::Stored,
};

/// Computes `max(x, 0)` of each element. NaN is propagated, as in PyTorch.
pub(crate) fn relu<T: Stored>(input: FlexTensor) -> FlexTensor {
    let zero = T::Wide::zero();
    map::<T>(input, move |x| if x < zero { zero } else { x })
}

/// Returns the gradient where the output is positive or NaN, as in PyTorch, and 0 elsewhere.
pub(crate) fn relu_gradient<T: Stored>(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let zero = T::Wide::zero();
    zip::<T>(output, grad, move |y, grad| if y <= zero { zero } else { grad })
}

/// Adds two tensors of the same shape.
pub(crate) fn add<T: Stored>(a: FlexTensor, b: FlexTensor) -> FlexTensor {
    zip::<T>(a, b, |x, y| x + y)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Distribution, Tensor};
    use burn_flex::Flex;
    use mantissa_core::Format;

    use super::*;
    use crate::{add, relu, relu_gradient};

    fn values_of(tensor: FlexTensor) -> Vec<f64> {
        let tensor = Tensor::<3>::from_primitive::<Flex>(tensor);
        tensor.into_data().iter::<f64>().collect()
    }

    #[test]
    fn add_and_relu_are_exact_in_every_format_and_layout() {
        let device = Device::flex();
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let random = || {
                let values = Tensor::<3>::random([3, 41, 70], Distribution::Normal(0.0, 1.0), &device);
                Tensor::<3>::from_data(values.into_data(), (&device, dtype))
            };
            let primitive = |tensor: &Tensor<3>| tensor.clone().try_into_primitive::<Flex>().unwrap();
            // Both contiguous, both transposed, both parts of a larger tensor, or only the first one transposed.
            let pairs = [
                (random(), random()),
                (random().swap_dims(0, 2), random().swap_dims(0, 2)),
                (random().narrow(1, 3, 9), random().narrow(1, 0, 9)),
                (random().swap_dims(1, 2), random().reshape([3, 70, 41])),
            ];
            for (a, b) in pairs {
                let sums = values_of(add(primitive(&a), primitive(&b)));
                let pairs_of_values = values_of(primitive(&a)).into_iter().zip(values_of(primitive(&b)));
                let format = match dtype {
                    DType::F64 => Format::F64,
                    DType::F32 => Format::F32,
                    DType::F16 => Format::F16,
                    _ => Format::Bf16,
                };
                // f64 represents the sum of two 16-bit values exactly.
                let rounded = pairs_of_values.map(|(x, y)| format.round(x + y).value);
                assert_eq!(sums, rounded.collect::<Vec<_>>(), "{dtype:?}");
                let positive = values_of(primitive(&a)).into_iter().map(|x| x.max(0.0));
                assert_eq!(
                    values_of(relu(primitive(&a))),
                    positive.collect::<Vec<_>>(),
                    "{dtype:?}"
                );
            }
            let special =
                Tensor::<3>::from_data([[[f64::NAN, f64::INFINITY, -f64::INFINITY]]], (&device, dtype));
            let [nan, inf, zero] = values_of(relu(primitive(&special)))[..] else {
                unreachable!("the list has three values");
            };
            assert!(nan.is_nan() && inf == f64::INFINITY && zero == 0.0, "{dtype:?}");
        }
    }

    #[test]
    fn results_are_written_in_place_unless_the_tensor_is_shared() {
        let device = Device::flex();
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let random = || {
                let values = Tensor::<3>::random([2, 3, 500], Distribution::Normal(0.0, 1.0), &device);
                let values = Tensor::<3>::from_data(values.into_data(), (&device, dtype));
                values.try_into_primitive::<Flex>().unwrap()
            };
            let address = |tensor: &FlexTensor| tensor.bytes().as_ptr();
            let (tensor, other) = (random(), random());
            let before = values_of(tensor.clone());
            let results = [
                relu(tensor.clone()),
                relu_gradient(tensor.clone(), other.clone()),
                add(tensor.clone(), other.clone()),
                add(tensor.clone(), tensor.clone()),
            ];
            for result in results {
                assert_ne!(address(&result), address(&tensor), "{dtype:?}");
            }
            assert_eq!(values_of(tensor.clone()), before, "{dtype:?}");
            let first = address(&tensor);
            let result = add(relu(tensor), other);
            assert_eq!(address(&result), first, "{dtype:?}");
        }
    }
}
