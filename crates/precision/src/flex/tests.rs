//! Tests of the CPU kernels through the operations that choose them: gradients, and kernels compared with each other.

use burn::{
    backend::{Dispatch, DispatchTensor, TensorMetadata},
    tensor::{Bool, DType, Device, Distribution, Tensor, TensorData},
};
use burn_flex::Flex;
use mantissa_cpu_kernels::MAX_FEW_ROWS;

use crate::{Accumulator, Compute, MatmulPrecision, Precision, PrecisionBackend, composed::rotate};

#[test]
fn relu_has_no_gradient_at_zero_and_propagates_nan() {
    let device = Device::flex().autodiff();
    let values = Tensor::<1>::from_data([-1.0, -0.0, 2.0, f32::NAN], &device).require_grad();
    let output = Dispatch::relu_forward(values.clone().into_dispatch());
    let output = Tensor::<1>::from_dispatch(output);
    let output_values = output.clone().into_data().try_to_vec::<f32>().unwrap();
    assert_eq!(output_values[..3], [0.0, 0.0, 2.0]);
    assert!(output_values[3].is_nan());
    let gradient = values.grad(&(output * 3.0).sum().backward()).unwrap();
    assert_eq!(
        gradient.into_data().try_to_vec::<f32>().unwrap(),
        [0.0, 0.0, 3.0, 3.0]
    );
}

#[test]
fn masked_elements_have_no_gradient() {
    let device = Device::flex().autodiff();
    let values = Tensor::<2>::ones([2, 3], &device).require_grad();
    let hidden = [[true, false, false], [true, true, true]];
    let hidden = Tensor::<2, Bool>::from_data(hidden, &device);
    let masked = Dispatch::masked_fill(values.clone().into_dispatch(), hidden.into_dispatch(), -7.0);
    let masked = Tensor::<2>::from_dispatch(masked);
    let values_of = |tensor: TensorData| tensor.iter::<f64>().collect::<Vec<_>>();
    assert_eq!(
        values_of(masked.clone().into_data()),
        [-7.0, 1.0, 1.0, -7.0, -7.0, -7.0]
    );
    let gradient = values.grad(&(masked * 2.0).sum().backward()).unwrap();
    assert_eq!(values_of(gradient.into_data()), [0.0, 2.0, 2.0, 0.0, 0.0, 0.0]);
}

#[test]
fn rotation_matches_burn_bit_for_bit() {
    let device = Device::flex();
    for (dtype, wide) in [
        (DType::F64, DType::F64),
        (DType::F32, DType::F32),
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
    ] {
        let random = |shape: [usize; 4], dtype| {
            Tensor::<4>::random(shape, Distribution::Default, (&device, DType::F32)).cast(dtype)
        };
        // The larger size takes two whole chunks and a partial one, which begins within a sequence.
        let sizes = [(5, 2, 8), (257, 5, 24)];
        for (interleaved, (sequence, heads, width)) in
            sizes.into_iter().flat_map(|size| [(false, size), (true, size)])
        {
            let [cosine, sine] = [0, 1].map(|_| {
                random([1, 1, sequence, width / 2], wide)
                    .try_into_primitive::<Flex>()
                    .unwrap()
            });
            let input = random([3, sequence, heads, width], dtype).swap_dims(1, 2);
            let input = input.try_into_primitive::<Flex>().unwrap();
            let widened = Flex::round_to(input.clone(), wide.into());
            let by_burn = rotate::<Flex>(widened, cosine.clone(), sine.clone(), interleaved);
            let by_burn = Flex::round_to(by_burn, dtype.into());
            let data_of = |tensor| Tensor::<4>::from_primitive::<Flex>(tensor).into_data();
            assert_eq!(
                data_of(Flex::rotate(input, cosine, sine, interleaved)),
                data_of(by_burn)
            );
        }
    }
}

#[test]
fn rotation_gradients_match_burn() {
    type Rotate = fn(DispatchTensor, [DispatchTensor; 2], bool) -> DispatchTensor;
    let device = Device::flex().autodiff();
    for (dtype, wide) in [
        (DType::F64, DType::F64),
        (DType::F32, DType::F32),
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
    ] {
        let random = |shape: [usize; 4], dtype| {
            Tensor::<4>::random(shape, Distribution::Default, (&device, DType::F32)).cast(dtype)
        };
        for interleaved in [false, true] {
            let angles = [0, 1].map(|_| random([1, 1, 5, 4], wide).into_dispatch());
            let (input, upstream) = (random([3, 2, 5, 8], dtype), random([3, 2, 5, 8], dtype));
            let gradient = |rotate: Rotate| {
                let input = input.clone().detach().require_grad();
                let output = rotate(input.clone().into_dispatch(), angles.clone(), interleaved);
                let output = Tensor::<4>::from_dispatch(output);
                let gradients = (output * upstream.clone()).sum().backward();
                input
                    .grad(&gradients)
                    .unwrap()
                    .into_data()
                    .iter::<f64>()
                    .collect::<Vec<_>>()
            };
            let ours = gradient(|input, [cosine, sine], interleaved| {
                Dispatch::rotate(input, cosine, sine, interleaved)
            });
            let expected = gradient(|input, [cosine, sine], interleaved| {
                let (narrow, wide) = (TensorMetadata::dtype(&input), TensorMetadata::dtype(&cosine));
                // burn's cast would round values just above a tie in the wrong direction.
                let widened = Dispatch::round_to(input, wide.into());
                let output = rotate::<Dispatch>(widened, cosine, sine, interleaved);
                Dispatch::round_to(output, narrow.into())
            });
            assert_eq!(ours, expected, "{dtype:?}, interleaved: {interleaved}");
            assert!(ours.iter().any(|value| *value != 0.0));
        }
    }
}

/// Returns the largest difference from the same matmul with more rows, which uses another kernel, in units of the largest
/// value.
fn relative_difference(precision: Precision, matmul: MatmulPrecision, m: usize) -> f64 {
    let device = Device::flex();
    device.seed(7);
    let dtype = crate::dtype(precision.parameters());
    let draw = |shape: [usize; 2]| {
        let values = Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        Tensor::<2>::from_data(values.into_data(), (&device, dtype))
    };
    let (inputs, weights) = (draw([m, 1500]), draw([77, 1500]));
    let compute = Compute::new(precision, matmul, Accumulator::F32);
    let few = compute.matmul(inputs.clone(), weights.clone().transpose());
    let more = Tensor::cat(vec![inputs; MAX_FEW_ROWS / m + 1], 0);
    assert!(more.dims()[0] > MAX_FEW_ROWS);
    let many = compute.matmul(more, weights.transpose());
    assert_eq!((few.dims(), few.dtype()), ([m, 77], many.dtype()));
    let list = |tensor: Tensor<2>| tensor.into_data().iter::<f64>().collect::<Vec<_>>();
    let (few, many) = (list(few), list(many.narrow(0, 0, m)));
    let largest = many.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let differences = few.iter().zip(&many).map(|(x, y)| (x - y).abs());
    differences.fold(0.0, mantissa_testing::worse) / largest
}

#[test]
fn few_rows_match_many_rows_in_every_precision() {
    for m in [1, 3, MAX_FEW_ROWS] {
        let difference_for = |precision, matmul| relative_difference(precision, matmul, m);
        assert!(difference_for(Precision::True64, MatmulPrecision::Highest) < 1e-14);
        for matmul in [
            MatmulPrecision::Highest,
            MatmulPrecision::High,
            MatmulPrecision::Medium,
        ] {
            let difference = difference_for(Precision::True32, matmul);
            assert!(difference < 1e-6, "{matmul}: {difference}");
        }
        // A sum near a tie may be rounded in the other direction.
        assert!(difference_for(Precision::True16, MatmulPrecision::Highest) < 1e-3);
        assert!(difference_for(Precision::TrueBf16, MatmulPrecision::Highest) < 8e-3);
    }
}

#[test]
fn few_rows_with_f16_sums_are_summed_in_f16() {
    let device = Device::flex();
    let ones = |rows| Tensor::<2>::ones([rows, 4096], (&device, DType::F16));
    let sum_with = |accumulator| {
        let compute = Compute::new(Precision::True16, MatmulPrecision::Highest, accumulator);
        let product = compute.matmul(ones(1), ones(16).transpose());
        product.into_data().iter::<f64>().next().unwrap()
    };
    // Adding ones has no effect from 2,048 on.
    assert_eq!(
        (sum_with(Accumulator::F32), sum_with(Accumulator::F16)),
        (4096.0, 2048.0)
    );
}
