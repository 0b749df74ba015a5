//! ReLU, and sums of branches of a network, on all cores.

use burn_flex::FlexTensor;
use num_traits::Zero;

use super::stored::{Stored, map, zip};

/// Computes the maximum of each element and 0. NaN is propagated, as in PyTorch.
pub(super) fn relu_forward<T: Stored>(input: FlexTensor) -> FlexTensor {
    let zero = T::Wide::zero();
    map::<T>(input, move |x| if x < zero { zero } else { x })
}

/// Returns the gradient where the output is positive or NaN, as in PyTorch, and 0 elsewhere.
pub(super) fn relu_gradient<T: Stored>(output: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let zero = T::Wide::zero();
    zip::<T>(output, grad, move |y, grad| if y <= zero { zero } else { grad })
}

/// Adds two tensors of the same shape.
pub(super) fn add_same_shape<T: Stored>(a: FlexTensor, b: FlexTensor) -> FlexTensor {
    zip::<T>(a, b, |x, y| x + y)
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::Dispatch,
        tensor::{DType, Device, Distribution, Tensor},
    };
    use burn_flex::Flex;

    use super::*;
    use crate::PrecisionBackend;

    fn list(tensor: FlexTensor) -> Vec<f64> {
        let tensor = Tensor::<3>::from_primitive::<Flex>(tensor);
        tensor.into_data().iter::<f64>().collect()
    }

    #[test]
    fn what_relu_makes_zero_passes_no_gradient_on_and_nan_stays() {
        let device = Device::flex().autodiff();
        let values = Tensor::<1>::from_data([-1.0, -0.0, 2.0, f32::NAN], &device).require_grad();
        let rectified = Dispatch::relu_forward(values.clone().into_dispatch());
        let rectified = Tensor::<1>::from_dispatch(rectified);
        let shown = rectified.clone().into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(shown[..3], [0.0, 0.0, 2.0]);
        assert!(shown[3].is_nan());
        let gradient = values.grad(&(rectified * 3.0).sum().backward()).unwrap();
        assert_eq!(
            gradient.into_data().try_to_vec::<f32>().unwrap(),
            [0.0, 0.0, 3.0, 3.0]
        );
    }

    #[test]
    fn sums_and_relu_are_burns_in_every_format_and_layout() {
        let device = Device::flex();
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let drawn = || {
                let values = Tensor::<3>::random([3, 41, 70], Distribution::Normal(0.0, 1.0), &device);
                Tensor::<3>::from_data(values.into_data(), (&device, dtype))
            };
            let primitive = |tensor: &Tensor<3>| tensor.clone().try_into_primitive::<Flex>().unwrap();
            // Both contiguous, both transposed, both parts of a larger tensor, or only the first one transposed.
            let pairs = [
                (drawn(), drawn()),
                (drawn().swap_dims(0, 2), drawn().swap_dims(0, 2)),
                (drawn().narrow(1, 3, 9), drawn().narrow(1, 0, 9)),
                (drawn().swap_dims(1, 2), drawn().reshape([3, 70, 41])),
            ];
            for (a, b) in pairs {
                let sums = list(Flex::add_same_shape(primitive(&a), primitive(&b)));
                let one_by_one = list(primitive(&a)).into_iter().zip(list(primitive(&b)));
                let format = mantissa_core::Format::ALL
                    .iter()
                    .find(|format| crate::dtype(**format) == dtype);
                let format = format.expect("a format of tensors");
                // f64 represents the sum of two 16-bit values exactly.
                let rounded = one_by_one.map(|(x, y)| format.round(x + y).value);
                assert_eq!(sums, rounded.collect::<Vec<_>>(), "{dtype:?}");
                let positive = list(primitive(&a)).into_iter().map(|x| x.max(0.0));
                assert_eq!(
                    list(Flex::relu_forward(primitive(&a))),
                    positive.collect::<Vec<_>>(),
                    "{dtype:?}"
                );
            }
            let odd = Tensor::<3>::from_data([[[f64::NAN, f64::INFINITY, -f64::INFINITY]]], (&device, dtype));
            let [nan, inf, zero] = list(Flex::relu_forward(primitive(&odd)))[..] else {
                unreachable!("there are three");
            };
            assert!(nan.is_nan() && inf == f64::INFINITY && zero == 0.0, "{dtype:?}");
        }
    }

    #[test]
    fn results_take_the_place_of_a_tensor_only_if_nobody_else_holds_it() {
        let device = Device::flex();
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let drawn = || {
                let values = Tensor::<3>::random([2, 3, 500], Distribution::Normal(0.0, 1.0), &device);
                let values = Tensor::<3>::from_data(values.into_data(), (&device, dtype));
                values.try_into_primitive::<Flex>().unwrap()
            };
            let place = |tensor: &FlexTensor| tensor.bytes().as_ptr();
            let (held, other) = (drawn(), drawn());
            let before = list(held.clone());
            let results = [
                Flex::relu_forward(held.clone()),
                Flex::relu_gradient(held.clone(), other.clone()),
                Flex::add_same_shape(held.clone(), other.clone()),
                Flex::add_same_shape(held.clone(), held.clone()),
            ];
            for result in results {
                assert_ne!(place(&result), place(&held), "{dtype:?}");
            }
            assert_eq!(list(held.clone()), before, "{dtype:?}");
            let first = place(&held);
            let result = Flex::add_same_shape(Flex::relu_forward(held), other);
            assert_eq!(place(&result), first, "{dtype:?}");
        }
    }
}
