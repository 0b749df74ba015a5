//! Tests of matmuls and their gradients over random shapes, against f64 loops.

use burn::tensor::{DType, Device, Tensor, TensorData};
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::Compute;
use proptest::prelude::*;

/// Batch of matmuls: `lhs` is `[batch or 1, m, k]`, `rhs` is `[batch or 1, k, n]`.
#[derive(Debug, Clone)]
struct Problem {
    batch: usize,
    lhs_batch: usize,
    rhs_batch: usize,
    m: usize,
    k: usize,
    n: usize,
    /// True for operands that are stored transposed and passed as a transposed view.
    transposed: (bool, bool),
    seed: u64,
    /// Largest absolute value of the operands, which are integers of both signs.
    max_magnitude: u32,
}

impl Problem {
    /// Returns small integers. Every sum of their products is exact, so every result must be exact as well.
    fn values(&self, count: usize, salt: u64) -> Vec<f64> {
        let mut state = self.seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 40) as u32 % (2 * self.max_magnitude + 1)) - f64::from(self.max_magnitude)
        };
        (0..count).map(|_| next()).collect()
    }
}

fn problems() -> impl Strategy<Value = Problem> {
    let dimension = prop_oneof![Just(0usize), Just(1), 2usize..20];
    (
        1usize..4,
        any::<(bool, bool)>(),
        dimension.clone(),
        dimension.clone(),
        dimension,
        any::<(bool, bool)>(),
        any::<u64>(),
    )
        .prop_map(|(batch, has_batch, m, k, n, transposed, seed)| Problem {
            batch,
            lhs_batch: if has_batch.0 { batch } else { 1 },
            rhs_batch: if has_batch.1 || !has_batch.0 { batch } else { 1 },
            m,
            k,
            n,
            transposed,
            seed,
            max_magnitude: 8,
        })
}

/// Transposes matrices.
fn transpose(values: &[f64], [batch, rows, columns]: [usize; 3]) -> Vec<f64> {
    let mut transposed = vec![0.0; values.len()];
    for b in 0..batch {
        for i in 0..rows {
            for j in 0..columns {
                transposed[(b * columns + j) * rows + i] = values[(b * rows + i) * columns + j];
            }
        }
    }
    transposed
}

/// Creates a leaf on an autodiff `device`.
fn leaf(
    values: &[f64],
    [batch, rows, columns]: [usize; 3],
    transposed: bool,
    (device, dtype): (&Device, DType),
) -> Tensor<3> {
    if !transposed {
        let data = TensorData::new(values.to_vec(), [batch, rows, columns]);
        return Tensor::from_data(data, (device, dtype)).require_grad();
    }
    let stored = transpose(values, [batch, rows, columns]);
    let data = TensorData::new(stored, [batch, columns, rows]);
    Tensor::from_data(data, (device, dtype))
        .swap_dims(1, 2)
        .require_grad()
}

fn values_of(tensor: Tensor<3>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn check_against_loops(
    device: &Device,
    problem: &Problem,
    compute: Compute,
    dtype: DType,
) -> Result<(), TestCaseError> {
    let device = device.clone().autodiff();
    let Problem { batch, m, k, n, .. } = *problem;
    let (lhs_batch, rhs_batch) = (problem.lhs_batch, problem.rhs_batch);
    let a = problem.values(lhs_batch * m * k, 1);
    let b = problem.values(rhs_batch * k * n, 2);
    let output_gradient = problem.values(batch * m * n, 3);

    let lhs = leaf(&a, [lhs_batch, m, k], problem.transposed.0, (&device, dtype));
    let rhs = leaf(&b, [rhs_batch, k, n], problem.transposed.1, (&device, dtype));
    let product = compute.matmul(lhs.clone(), rhs.clone());
    let weights = TensorData::new(output_gradient.clone(), [batch, m, n]);
    let weights = Tensor::from_data(weights, (&device, product.dtype()));
    let grads = (product.clone() * weights).sum().backward();

    let (mut want, mut want_a, mut want_b) =
        (vec![0.0; batch * m * n], vec![0.0; a.len()], vec![0.0; b.len()]);
    for z in 0..batch {
        let (za, zb) = (z % lhs_batch, z % rhs_batch);
        for i in 0..m {
            for j in 0..n {
                let at = (z * m + i) * n + j;
                for l in 0..k {
                    let (ia, ib) = ((za * m + i) * k + l, (zb * k + l) * n + j);
                    want[at] += a[ia] * b[ib];
                    want_a[ia] += output_gradient[at] * b[ib];
                    want_b[ib] += a[ia] * output_gradient[at];
                }
            }
        }
    }
    prop_assert_eq!(product.dims(), [batch, m, n]);
    prop_assert_eq!(values_of(product.inner()), want.clone());
    prop_assert_eq!(values_of(lhs.grad(&grads).unwrap()), want_a.clone());
    prop_assert_eq!(values_of(rhs.grad(&grads).unwrap()), want_b.clone());

    let by_columns = transpose(&b, [rhs_batch, k, n]);
    let columns = leaf(
        &by_columns,
        [rhs_batch, n, k],
        problem.transposed.1,
        (&device, dtype),
    );
    let product = compute.matmul_by_columns(lhs.clone(), columns.clone());
    let weights = TensorData::new(output_gradient, [batch, m, n]);
    let weights = Tensor::from_data(weights, (&device, product.dtype()));
    let grads = (product.clone() * weights).sum().backward();
    prop_assert_eq!(values_of(product.inner()), want);
    prop_assert_eq!(values_of(lhs.grad(&grads).unwrap()), want_a);
    let want_columns = transpose(&want_b, [rhs_batch, k, n]);
    prop_assert_eq!(values_of(columns.grad(&grads).unwrap()), want_columns);
    Ok(())
}

fn compute_for(precision: Precision, matmul: MatmulPrecision) -> Compute {
    Compute::new(precision, matmul, Accumulator::F32)
}

proptest! {
    #[test]
    fn matmuls_and_gradients_of_small_integers_are_exact(problem in problems()) {
        let device = Device::flex();
        check_against_loops(&device, &problem, compute_for(Precision::True64, MatmulPrecision::Highest), DType::F64)?;
        for &matmul in MatmulPrecision::ALL {
            check_against_loops(&device, &problem, compute_for(Precision::True32, matmul), DType::F32)?;
        }
        // bf16 represents integers up to 256, so sums of at most sixty ones are exact.
        let ones = Problem { max_magnitude: 1, ..problem };
        for (precision, dtype) in [(Precision::True16, DType::F16), (Precision::TrueBf16, DType::BF16)] {
            for &sums in Accumulator::ALL {
                check_against_loops(&device, &ones, Compute::new(precision, MatmulPrecision::Highest, sums), dtype)?;
            }
        }
        // Mixed settings round f32 operands and their gradients to 16 bits.
        for precision in [Precision::Mixed16, Precision::MixedBf16] {
            check_against_loops(&device, &ones, compute_for(precision, MatmulPrecision::Highest), DType::F32)?;
        }
    }
}

/// Checks that a sum without terms is 0 and not the previous content of a buffer, and that empty operands yield results of the correct
/// shape.
fn empty_matmuls_are_zero(device: &Device, compute: Compute, dtype: DType) {
    let device = device.clone().autodiff();
    for [m, k, n] in [[3, 0, 5], [0, 3, 5], [4, 3, 0]] {
        let ones = |shape| Tensor::<3>::ones(shape, (&device, dtype)).require_grad();
        let (lhs, rhs) = (ones([2, m, k]), ones([2, k, n]));
        let product = compute.matmul(lhs.clone(), rhs.clone());
        let grads = product.clone().backward();
        let what = format!("{m} × {k} × {n} in {dtype:?}");
        for (tensor, shape) in [
            (product.inner(), [2, m, n]),
            (lhs.grad(&grads).unwrap(), [2, m, k]),
            (rhs.grad(&grads).unwrap(), [2, k, n]),
        ] {
            assert_eq!(tensor.dims(), shape, "{what}");
            assert!(values_of(tensor).iter().all(|x| *x == 0.0), "{what}");
        }
    }
}

#[test]
fn empty_matmuls_on_the_cpu_are_zero() {
    let device = Device::flex();
    let highest = |precision| compute_for(precision, MatmulPrecision::Highest);
    empty_matmuls_are_zero(&device, highest(Precision::True32), DType::F32);
    empty_matmuls_are_zero(&device, highest(Precision::TrueBf16), DType::BF16);
    // The input has no rows, and there are enough weights for the kernel for few rows.
    let [inputs, weights] = [[0, 1024], [64, 1024]].map(|shape| Tensor::<2>::ones(shape, &device));
    let product = highest(Precision::True32).matmul_by_columns(inputs, weights);
    assert_eq!(product.dims(), [0, 64]);
}

/// Checks that a bias is added before rounding: the format cannot represent the sum of products, but can represent this sum plus the bias.
fn check_rounding_of_linear(device: &Device, precision: Precision, dtype: DType, last: f64) {
    let device = device.clone().autodiff();
    let compute = compute_for(precision, MatmulPrecision::Highest);
    let tensor = |values: &[f64], shape: [usize; 2]| {
        let data = TensorData::new(values.to_vec(), shape);
        Tensor::<2>::from_data(data, (&device, dtype)).require_grad()
    };
    // Up to `last` the format represents every integer, and beyond it every second one.
    let input = tensor(&[last, 1.0, 1.0, 2.0, 4.0, 2.0], [3, 2]);
    let weight = tensor(&[1.0, 1.0], [1, 2]);
    let bias = Tensor::<1>::from_data([1.0], (&device, dtype)).require_grad();
    let output = compute.linear(input.clone(), weight.clone(), bias.clone());
    let values_of = |tensor: Tensor<2>| -> Vec<f64> { tensor.into_data().iter::<f64>().collect() };
    assert_eq!(
        values_of(output.clone().inner()),
        [last + 2.0, 4.0, 7.0],
        "{dtype:?}"
    );

    let grads = output.backward();
    assert_eq!(values_of(input.grad(&grads).unwrap()), [1.0; 6]);
    assert_eq!(values_of(weight.grad(&grads).unwrap()), [last + 4.0, 5.0]);
    let bias_grad: Vec<f64> = bias.grad(&grads).unwrap().into_data().iter::<f64>().collect();
    assert_eq!(bias_grad, [3.0]);
}

#[test]
fn a_linear_layer_rounds_once() {
    let cases = [
        (Precision::True16, DType::F16, 2048.0),
        (Precision::TrueBf16, DType::BF16, 256.0),
    ];
    for (precision, dtype, last) in cases {
        check_rounding_of_linear(&Device::flex(), precision, dtype, last);
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use mantissa_testing::alone;

    use super::*;

    fn empty_matmuls_are_zero_in_f32_and_f16(device: &Device) {
        for (precision, dtype) in [(Precision::True32, DType::F32), (Precision::True16, DType::F16)] {
            empty_matmuls_are_zero(device, compute_for(precision, MatmulPrecision::Highest), dtype);
        }
    }

    #[test]
    fn empty_matmuls_on_a_gpu_are_zero() {
        if let Some(device) = crate::vulkan(false) {
            empty_matmuls_are_zero_in_f32_and_f16(&device);
        }
    }

    #[test]
    fn empty_matmuls_in_fused_kernels_are_zero() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                empty_matmuls_are_zero_in_f32_and_f16(&device);
            }
        });
    }

    fn check_broadcast_operands(device: &Device) {
        // Each shape is autotuned separately, forward and backward. Few shapes limit the time of the test.
        let strict = compute_for(Precision::True32, MatmulPrecision::Highest);
        for (number, (lhs_batch, rhs_batch)) in [(1, 2), (2, 1)].into_iter().enumerate() {
            let problem = Problem {
                batch: 2,
                lhs_batch,
                rhs_batch,
                m: 1,
                k: 7,
                n: 5,
                transposed: (false, true),
                seed: number as u64,
                max_magnitude: 8,
            };
            check_against_loops(device, &problem, strict, DType::F32).unwrap();
        }
    }

    #[test]
    fn gpu_matmuls_of_broadcast_operands_match_loops() {
        if let Some(device) = crate::vulkan(false) {
            check_broadcast_operands(&device);
        }
    }

    #[test]
    fn gpu_matmuls_of_broadcast_operands_match_loops_with_fusion() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                check_broadcast_operands(&device);
            }
        });
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use mantissa_testing::alone;

    use super::*;

    #[test]
    fn a_linear_layer_rounds_once() {
        if let Some(device) = crate::vulkan_with_f16(false) {
            check_rounding_of_linear(&device, Precision::True16, DType::F16, 2048.0);
        }
    }

    #[test]
    fn a_linear_layer_rounds_once_in_fused_kernels() {
        alone(|| {
            if let Some(device) = crate::vulkan_with_f16(true) {
                check_rounding_of_linear(&device, Precision::True16, DType::F16, 2048.0);
            }
        });
    }
}
