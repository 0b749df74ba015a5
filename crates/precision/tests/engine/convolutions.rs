//! Tests of convolutions and their gradients over random shapes, against f64 loops.

use burn::tensor::{DType, Device, Tensor, TensorData};
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::Compute;
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Problem {
    images: [usize; 4],
    filters: [usize; 4],
    stride: usize,
    padding: usize,
    seed: u64,
}

impl Problem {
    fn output(&self) -> [usize; 4] {
        let steps =
            |axis: usize| (self.images[axis] + 2 * self.padding - self.filters[axis]) / self.stride + 1;
        [self.images[0], self.filters[0], steps(2), steps(3)]
    }

    /// Returns small integers. Every sum of their products is exact in f32 and in f16, so every result must be exact as well.
    fn values(&self, shape: [usize; 4], salt: u64) -> Vec<f64> {
        let mut state = self.seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 61) as u32) - 4.0
        };
        (0..shape.iter().product()).map(|_| next()).collect()
    }
}

prop_compose! {
    fn problems()(
        n in 0usize..4, channels in 1usize..6, filters in 1usize..6,
        a in 1usize..5, b in 1usize..5, extra in (0usize..7, 0usize..7),
        stride in 1usize..4, padding in 0usize..4, seed in any::<u64>(),
    ) -> Problem {
        Problem {
            images: [n, channels, a + extra.0, b + extra.1],
            filters: [filters, channels, a, b],
            stride,
            padding: padding.min(a - 1).min(b - 1),
            seed,
        }
    }
}

fn flat_index(shape: [usize; 4], index: [usize; 4]) -> usize {
    shape.iter().zip(index).fold(0, |at, (size, i)| at * size + i)
}

/// Computes the output, the gradient of the images and the gradient of the filters in loops.
fn reference(problem: &Problem, x: &[f64], f: &[f64], g: &[f64]) -> [Vec<f64>; 3] {
    let (images, filters, output) = (problem.images, problem.filters, problem.output());
    let (mut out, mut dx, mut df) = (vec![0.0; g.len()], vec![0.0; x.len()], vec![0.0; f.len()]);
    let [n, o, ys, xs] = output;
    let [_, c, a, b] = filters;
    let inside_image = |position: usize, axis: usize| {
        position
            .checked_sub(problem.padding)
            .filter(|&i| i < images[axis])
    };
    for (n, o, y, z) in indices(n, o, ys, xs) {
        for (c, i, j, _) in indices(c, a, b, 1) {
            let (Some(row), Some(column)) = (
                inside_image(y * problem.stride + i, 2),
                inside_image(z * problem.stride + j, 3),
            ) else {
                continue;
            };
            let (output_at, image_at, filter_at) = (
                flat_index(output, [n, o, y, z]),
                flat_index(images, [n, c, row, column]),
                flat_index(filters, [o, c, i, j]),
            );
            out[output_at] += x[image_at] * f[filter_at];
            dx[image_at] += g[output_at] * f[filter_at];
            df[filter_at] += g[output_at] * x[image_at];
        }
    }
    [out, dx, df]
}

fn indices(a: usize, b: usize, c: usize, d: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a).flat_map(move |a| {
        (0..b).flat_map(move |b| (0..c).flat_map(move |c| (0..d).map(move |d| (a, b, c, d))))
    })
}

fn check_against_loops(
    device: &Device,
    problem: &Problem,
    compute: Compute,
    dtype: DType,
) -> Result<(), TestCaseError> {
    let device = device.clone().autodiff();
    let (x, f, g) = (
        problem.values(problem.images, 1),
        problem.values(problem.filters, 2),
        problem.values(problem.output(), 3),
    );
    let upload = |values: &[f64], shape: [usize; 4]| {
        Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), (&device, dtype))
    };
    let values_of = |tensor: Tensor<4>| -> Vec<f64> { tensor.into_data().iter::<f64>().collect() };

    let images = upload(&x, problem.images).require_grad();
    let filters = upload(&f, problem.filters).require_grad();
    let output = compute.convolution(images.clone(), filters.clone(), problem.stride, problem.padding);
    let grads = (output.clone() * upload(&g, problem.output())).sum().backward();

    let [want, want_images, want_filters] = reference(problem, &x, &f, &g);
    prop_assert_eq!(output.dims(), problem.output());
    prop_assert_eq!(values_of(output.inner()), want);
    prop_assert_eq!(values_of(images.grad(&grads).unwrap()), want_images);
    prop_assert_eq!(values_of(filters.grad(&grads).unwrap()), want_filters);
    Ok(())
}

fn compute_for(precision: Precision, matmul: MatmulPrecision) -> Compute {
    Compute::new(precision, matmul, Accumulator::F32)
}

proptest! {
    #[test]
    fn convolutions_and_gradients_of_small_integers_are_exact(problem in problems()) {
        let device = Device::flex();
        check_against_loops(&device, &problem, compute_for(Precision::True64, MatmulPrecision::Highest), DType::F64)?;
        check_against_loops(&device, &problem, compute_for(Precision::True16, MatmulPrecision::Highest), DType::F16)?;
        for &matmul in MatmulPrecision::ALL {
            check_against_loops(&device, &problem, compute_for(Precision::True32, matmul), DType::F32)?;
        }
    }
}

#[test]
fn an_odd_number_of_1x1_windows_is_supported() {
    // Each of three images has one window of one value. Three bf16 values do not fill whole 32-bit words. Processors without bf16
    // instructions multiply in f32, where this case does not occur.
    let problem = Problem {
        images: [3, 1, 1, 1],
        filters: [2, 1, 1, 1],
        stride: 1,
        padding: 0,
        seed: 7,
    };
    let medium = compute_for(Precision::True32, MatmulPrecision::Medium);
    check_against_loops(&Device::flex(), &problem, medium, DType::F32).unwrap();
}

#[test]
fn a_large_batch_is_unfolded_in_parts() {
    // 40 × 40 windows of 3 × 3 × 64 values are 3.7 MB per image: 20 images exceed the limit of unfolded bytes.
    let problem = Problem {
        images: [20, 64, 40, 40],
        filters: [2, 64, 3, 3],
        stride: 1,
        padding: 1,
        seed: 5,
    };
    for precision in [MatmulPrecision::Highest, MatmulPrecision::Medium] {
        check_against_loops(
            &Device::flex(),
            &problem,
            compute_for(Precision::True32, precision),
            DType::F32,
        )
        .unwrap();
    }
}

/// A small problem, because a GPU compiles its kernels for each shape.
#[cfg(feature = "vulkan")]
const SMALL: Problem = Problem {
    images: [2, 3, 7, 6],
    filters: [4, 3, 3, 3],
    stride: 2,
    padding: 1,
    seed: 9,
};

#[cfg(feature = "vulkan")]
mod lavapipe {
    use super::*;

    /// Checks only the forward pass.
    fn check_output(device: &Device, precision: Precision, dtype: DType) {
        let upload = |values: &[f64], shape: [usize; 4]| {
            let data = TensorData::new(values.to_vec(), shape);
            Tensor::<4>::from_data(data, (device, dtype))
        };
        let (x, f, g) = (
            SMALL.values(SMALL.images, 1),
            SMALL.values(SMALL.filters, 2),
            SMALL.values(SMALL.output(), 3),
        );
        let output = compute_for(precision, MatmulPrecision::Highest).convolution(
            upload(&x, SMALL.images),
            upload(&f, SMALL.filters),
            SMALL.stride,
            SMALL.padding,
        );
        let [want, ..] = reference(&SMALL, &x, &f, &g);
        let got: Vec<f64> = output.into_data().iter::<f64>().collect();
        assert_eq!(got, want, "{precision}");
    }

    #[test]
    fn gpu_convolutions_match_loops() {
        let Some(device) = crate::vulkan(false) else {
            return;
        };
        let strict = compute_for(Precision::True32, MatmulPrecision::Highest);
        check_against_loops(&device, &SMALL, strict, DType::F32).unwrap();
        check_output(&device, Precision::True16, DType::F16);
        check_output(&device, Precision::True64, DType::F64);
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use mantissa_testing::alone;

    use super::*;

    fn highest(precision: Precision) -> Compute {
        compute_for(precision, MatmulPrecision::Highest)
    }

    #[test]
    fn gpu_convolutions_match_loops_in_other_formats() {
        let Some(device) = crate::vulkan(false) else {
            return;
        };
        check_against_loops(&device, &SMALL, highest(Precision::True16), DType::F16).unwrap();
        check_against_loops(&device, &SMALL, highest(Precision::True64), DType::F64).unwrap();
    }

    #[test]
    fn gpu_convolutions_match_loops_with_fusion() {
        alone(|| {
            let Some(device) = crate::vulkan(true) else {
                return;
            };
            check_against_loops(&device, &SMALL, highest(Precision::True32), DType::F32).unwrap();
            check_against_loops(&device, &SMALL, highest(Precision::True64), DType::F64).unwrap();
        });
    }

    fn check_empty_batch(device: &Device) {
        let device = device.clone().autodiff();
        let ones = |shape: [usize; 4]| Tensor::<4>::ones(shape, &device).require_grad();
        let (images, filters) = (ones([0, 3, 6, 6]), ones([4, 3, 3, 3]));
        let strict = highest(Precision::True32);
        let output = strict.convolution(images.clone(), filters.clone(), 1, 1);
        assert_eq!(output.dims(), [0, 4, 6, 6]);
        let grads = output.backward();
        assert_eq!(images.grad(&grads).unwrap().dims(), [0, 3, 6, 6]);
        let filters_grad = filters.grad(&grads).unwrap().into_data();
        assert_eq!(filters_grad.iter::<f32>().collect::<Vec<_>>(), [0.0; 108]);
    }

    #[test]
    fn gpu_convolutions_of_empty_batches_are_zero() {
        if let Some(device) = crate::vulkan(false) {
            check_empty_batch(&device);
        }
    }

    #[test]
    fn gpu_convolutions_of_empty_batches_are_zero_with_fusion() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                check_empty_batch(&device);
            }
        });
    }
}
