//! Tests of all operations other than matmuls and convolutions against f64 references: every form, format and backend, with ordinary and
//! special values.

use burn::{
    backend::Dispatch,
    tensor::{DType, Device, Tensor, TensorData},
};
use mantissa_core::{Accumulator, Format, Gelu, MatmulPrecision, Precision};
use mantissa_precision::{AdamRates, Compute, PrecisionBackend, dtype};
use proptest::prelude::*;

const TRUE_PRECISIONS: [Precision; 3] = [Precision::True32, Precision::True16, Precision::TrueBf16];
const ROWS: [usize; 2] = [7, 45];

fn compute(precision: Precision) -> Compute {
    Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32)
}

/// Returns numbers of both signs between 2⁻⁸ and 4, rounded to a format.
fn values(count: usize, salt: u64, format: Format) -> Vec<f64> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        let size = 4.0 * share.powi(2) + 0.004;
        format.round(if state & 1024 == 0 { size } else { -size }).value
    };
    (0..count).map(|_| next()).collect()
}

fn upload<const D: usize>(
    values: &[f64],
    shape: [usize; D],
    (device, format): (&Device, Format),
) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (device, dtype(format)))
}

fn values_of<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Returns the largest error in units of half the machine epsilon of the format. Errors are relative to the magnitude of the expected value,
/// or to 1 if the magnitude is smaller.
fn max_error(got: &[f64], want: &[f64], format: Format) -> f64 {
    assert_eq!(got.len(), want.len());
    let relative = |(got, want): (&f64, &f64)| (got - want).abs() / want.abs().max(1.0);
    let largest = got
        .iter()
        .zip(want)
        .map(relative)
        .fold(0.0, mantissa_testing::worse);
    largest / (0.5 * format.epsilon())
}

fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn tanh_gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

fn normalized(row: &[f64], mean: f64, scale: &[f64], shift: &[f64]) -> Vec<f64> {
    let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
    let inverse = (square + 1e-5).sqrt().recip();
    let affine = scale.iter().zip(shift);
    row.iter()
        .zip(affine)
        .map(|(x, (scale, shift))| (x - mean) * inverse * scale + shift)
        .collect()
}

/// Runs every operation in one precision. Returns the name, the error and the tolerance of each operation, in the units of [`max_error`].
fn errors(device: &Device, precision: Precision) -> Vec<(&'static str, f64, f64)> {
    let format = precision.parameters();
    let compute = compute(precision);
    let width = ROWS[1];
    let x = values(ROWS[0] * width, 1, format);
    let (scale, shift) = (values(width, 2, format), values(width, 3, format));
    let row = |values: &[f64]| upload::<1>(values, [width], (device, format));
    let input = || upload::<2>(&x, ROWS, (device, format));
    let rows = |f: &dyn Fn(&[f64]) -> Vec<f64>| x.chunks_exact(width).flat_map(f).collect::<Vec<f64>>();
    let error_of = |got: Tensor<2>, want: Vec<f64>| max_error(&values_of(got), &want, format);
    let exact = |x: &f64| x * normal_cdf(*x);
    let mean = |row: &[f64]| row.iter().sum::<f64>() / row.len() as f64;
    // 16-bit results are rounded once. In f32, cancellation increases the error where the shift and a normalized value of up to 16 have
    // opposite signs.
    let tolerance = if format == Format::F32 { 24.0 } else { 1.1 };
    let mut errors = vec![
        (
            "gelu",
            error_of(compute.gelu(input()), x.iter().map(exact).collect()),
            tolerance,
        ),
        (
            "gelu by tanh",
            error_of(
                compute.gelu_as(Gelu::Tanh, input()),
                x.iter().map(|x| tanh_gelu(*x)).collect(),
            ),
            tolerance,
        ),
        (
            "softmax",
            error_of(compute.softmax(input()), rows(&softmax)),
            tolerance,
        ),
        (
            "layer norm",
            error_of(
                compute.layer_norm(input(), row(&scale), row(&shift), 1e-5),
                rows(&|row| normalized(row, mean(row), &scale, &shift)),
            ),
            tolerance,
        ),
        (
            "RMS norm",
            error_of(
                compute.rms_norm(input(), row(&scale), 1e-5),
                rows(&|row| normalized(row, 0.0, &scale, &vec![0.0; width])),
            ),
            tolerance,
        ),
    ];
    if format != Format::F32 {
        // Every intermediate result is rounded to 16 bits. The largest error over all inputs up to 4 is 1.7.
        let got = compute.gelu_as(Gelu::TanhPacked, input());
        let packed = error_of(got, x.iter().map(|x| tanh_gelu(*x)).collect());
        assert!(
            packed > 1.02,
            "packed GELU must round after every operation: error {packed}"
        );
        errors.push(("packed gelu", packed, 2.0));
    }
    errors
}

fn assert_near(device: &Device, precision: Precision) {
    for (name, error, tolerance) in errors(device, precision) {
        assert!(
            error <= tolerance,
            "{name} in {precision}: error {error} exceeds {tolerance}"
        );
    }
}

#[test]
fn every_operation_on_the_cpu_is_within_its_tolerance() {
    for precision in TRUE_PRECISIONS {
        assert_near(&Device::flex(), precision);
    }
}

#[test]
fn gelu_is_accurate_for_large_negative_values() {
    let x: Vec<f64> = (0..1300)
        .map(|i| Format::F32.round(-0.01 * f64::from(i)).value)
        .collect();
    let input = upload::<1>(&x, [x.len()], (&Device::flex(), Format::F32));
    let got = values_of(compute(Precision::True32).gelu(input));
    for (x, got) in x.iter().zip(got) {
        let want = x * normal_cdf(*x);
        assert!(
            (got - want).abs() <= 6.0 * Format::F32.ulp(want),
            "{x}: {got:e} is not {want:e}"
        );
    }
}

#[test]
fn non_finite_very_large_and_subnormal_values_match_the_formula() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let device = Device::flex();
    for precision in TRUE_PRECISIONS {
        let format = precision.parameters();
        let options = (&device, format);
        let compute = compute(precision);
        let subnormal = format
            .round(if format == Format::F16 { 1e-6 } else { 1e-39 })
            .value;
        let x = [inf, nan, 60_000.0, -60_000.0, subnormal, 0.0, -0.0, -inf];
        let input = || upload::<1>(&x, [x.len()], options);
        let mut forms = vec![Gelu::Exact, Gelu::Tanh];
        forms.extend((format != Format::F32).then_some(Gelu::TanhPacked));
        for form in forms {
            let got = values_of(compute.gelu_as(form, input()));
            let large = format.round(60_000.0).value;
            assert_eq!(
                (got[0], got[2], got[3]),
                (inf, large, 0.0),
                "{form} in {precision}"
            );
            // PyTorch's GELU of minus infinity is NaN as well: infinity times zero.
            assert!(got[1].is_nan() && got[7].is_nan(), "{form} in {precision}");
            let half = 0.5 * subnormal;
            let ulp = format.ulp(subnormal);
            assert!(
                (got[4] - half).abs() <= ulp,
                "{form} in {precision}: {:e}",
                got[4]
            );
            assert_eq!((got[5], got[6]), (0.0, 0.0));
        }
        let rows = [60_000.0, 60_000.0, -60_000.0, -inf, 0.0, nan, 0.0, 0.0];
        let got = values_of(compute.softmax(upload::<2>(&rows, [2, 4], options)));
        assert_eq!(got[..4], [0.5, 0.5, 0.0, 0.0], "{precision}");
        assert!(got[4..].iter().all(|x| x.is_nan()), "{precision}");
        let zeros = upload::<2>(&[0.0; 8], [2, 4], options);
        let ones = upload::<1>(&[1.0; 4], [4], options);
        assert_eq!(
            values_of(compute.rms_norm(zeros, ones, 1e-5)),
            [0.0; 8],
            "{precision}"
        );
    }
}

/// Computes the gradients of input, scale and shift from the Jacobian: of layer norm if `layer`, otherwise of RMS norm, which does not
/// subtract the mean.
fn norm_gradients(x: &[f64], scale: &[f64], grad: &[f64], layer: bool) -> [Vec<f64>; 3] {
    let n = scale.len();
    let (mut x_grad, mut scale_grad, mut shift_grad) = (vec![0.0; x.len()], vec![0.0; n], vec![0.0; n]);
    let inverse_n = (n as f64).recip();
    for (row, (xs, grads)) in x.chunks_exact(n).zip(grad.chunks_exact(n)).enumerate() {
        let mean = if layer {
            xs.iter().sum::<f64>() * inverse_n
        } else {
            0.0
        };
        let square: f64 = xs.iter().map(|x| (x - mean).powi(2)).sum();
        let inverse = (square * inverse_n + 1e-5).sqrt().recip();
        let normal: Vec<f64> = xs.iter().map(|x| (x - mean) * inverse).collect();
        for j in 0..n {
            scale_grad[j] += grads[j] * normal[j];
            shift_grad[j] += grads[j];
            for i in 0..n {
                let identity = if i == j { 1.0 } else { 0.0 };
                let mean_part = if layer { inverse_n } else { 0.0 };
                let slope = (identity - mean_part - normal[i] * normal[j] * inverse_n) * inverse;
                x_grad[row * n + i] += grads[j] * scale[j] * slope;
            }
        }
    }
    [x_grad, scale_grad, shift_grad]
}

fn check_gradients(device: &Device, precision: Precision, tolerance: f64) {
    let format = precision.parameters();
    let compute = compute(precision);
    let device = device.clone().autodiff();
    let options = (&device, format);
    let count = ROWS[0] * ROWS[1];
    let (x, scale, grad) = (
        values(count, 4, format),
        values(ROWS[1], 5, format),
        values(count, 6, format),
    );
    let weight = || upload::<2>(&grad, ROWS, options);
    let check = |got: Vec<f64>, want: Vec<f64>, what: &str| {
        let error = max_error(&got, &want, format);
        assert!(error <= tolerance, "{what} in {precision}: error {error}");
    };
    let input = upload::<2>(&x, ROWS, options).require_grad();
    let factors = upload::<1>(&scale, [ROWS[1]], options).require_grad();
    let output = compute.rms_norm(input.clone(), factors.clone(), 1e-5);
    let grads = (output * weight()).sum().backward();
    let [x_grad, scale_grad, _] = norm_gradients(&x, &scale, &grad, false);
    check(
        values_of(input.grad(&grads).unwrap()),
        x_grad,
        "gradient of the input of RMS norm",
    );
    check(
        values_of(factors.grad(&grads).unwrap()),
        scale_grad,
        "gradient of the scale",
    );

    let [input, factors] = [input, factors.unsqueeze()].map(|tensor| tensor.detach().require_grad());
    let shift = upload::<1>(&scale, [ROWS[1]], options).require_grad();
    let output = compute.layer_norm(input.clone(), factors.clone().squeeze_dim(0), shift.clone(), 1e-5);
    let grads = (output * weight()).sum().backward();
    let [x_grad, scale_grad, shift_grad] = norm_gradients(&x, &scale, &grad, true);
    check(
        values_of(input.grad(&grads).unwrap()),
        x_grad,
        "gradient of the input of layer norm",
    );
    check(
        values_of(factors.grad(&grads).unwrap()),
        scale_grad,
        "gradient of the scale",
    );
    check(
        values_of(shift.grad(&grads).unwrap()),
        shift_grad,
        "gradient of the shift",
    );

    for form in [Gelu::Exact, Gelu::Tanh] {
        let input = upload::<2>(&x, ROWS, options).require_grad();
        let grads = (compute.gelu_as(form, input.clone()) * weight()).sum().backward();
        let slope = |x: f64| match form {
            Gelu::Exact => normal_cdf(x) + x * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt(),
            // Central differences: accurate to about 10⁻⁹.
            _ => (tanh_gelu(x + 1e-5) - tanh_gelu(x - 1e-5)) / 2e-5,
        };
        let want = x.iter().zip(&grad).map(|(x, grad)| grad * slope(*x)).collect();
        check(values_of(input.grad(&grads).unwrap()), want, form.name());
    }
}

#[test]
fn gradients_match_the_formulas() {
    let device = Device::flex();
    check_gradients(&device, Precision::True32, 30.0);
    check_gradients(&device, Precision::True16, 1.5);
    check_gradients(&device, Precision::TrueBf16, 1.5);
}

#[test]
fn layer_norm_is_accurate_for_a_large_mean() {
    let format = Format::F32;
    let options = (&Device::flex(), format);
    let x: Vec<f64> = values(ROWS[0] * ROWS[1], 7, format);
    let x: Vec<f64> = x.iter().map(|x| format.round(512.0 + x).value).collect();
    let row = |value: f64| upload::<1>(&[value; ROWS[1]], [ROWS[1]], options);
    let input = upload::<2>(&x, ROWS, options);
    let got = values_of(compute(Precision::True32).layer_norm(input, row(1.0), row(0.0), 1e-5));
    let (ones, zeros) = ([1.0; ROWS[1]], [0.0; ROWS[1]]);
    let mean = |row: &[f64]| row.iter().sum::<f64>() / row.len() as f64;
    let want = x
        .chunks_exact(ROWS[1])
        .flat_map(|row| normalized(row, mean(row), &ones, &zeros));
    let error = got
        .iter()
        .zip(want)
        .map(|(got, want)| (got - want).abs())
        .fold(0.0, mantissa_testing::worse);
    // The distance from 512 to the next number is 6.1e-5. A variance computed as a difference of squares would have an error of
    // 1e-3 or more.
    assert!(error < 6.1e-5, "{error:e}");
}

#[test]
fn the_result_of_a_row_does_not_depend_on_the_number_of_rows() {
    const MANY: usize = 1500;
    let width = ROWS[1];
    let device = Device::flex();
    for precision in TRUE_PRECISIONS {
        let (format, compute) = (precision.parameters(), compute(precision));
        let x = values(MANY * width, 8, format);
        let row_in =
            |salt: u64, format| upload::<1>(&values(width, salt, format), [width], (&device, format));
        let row = |salt: u64| row_in(salt, format);
        let columns = |rows: Tensor<2>| {
            let [mean, deviation, scale, shift] =
                [11, 12, 13, 14].map(|salt| row_in(salt, Format::F32).into_dispatch());
            let rows = rows.into_dispatch();
            Tensor::from_dispatch(Dispatch::normalize_columns(rows, mean, deviation, scale, shift))
        };
        type Operation<'a> = (&'static str, &'a dyn Fn(Tensor<2>) -> Tensor<2>);
        let gradient = |x: Tensor<2>, f: &dyn Fn(Tensor<2>) -> Tensor<2>| {
            let input = Tensor::from_inner(x.clone()).require_grad();
            let grads = (f(input.clone()) * Tensor::from_inner(x)).sum().backward();
            input.grad(&grads).unwrap()
        };
        let operations: [Operation; 10] = [
            ("gelu", &|x| compute.gelu(x)),
            ("softmax", &|x| compute.softmax(x)),
            ("layer norm", &|x| compute.layer_norm(x, row(9), row(10), 1e-5)),
            ("RMS norm", &|x| compute.rms_norm(x, row(9), 1e-5)),
            ("batch norm", &columns),
            ("f16", &|x| x.cast(DType::F16)),
            ("gradient of gelu", &|x| gradient(x, &|x| compute.gelu(x))),
            ("gradient of softmax", &|x| gradient(x, &|x| compute.softmax(x))),
            ("gradient of layer norm", &|x| {
                let [scale, shift] = [9, 10].map(|salt| Tensor::from_inner(row(salt)));
                gradient(x, &|x| compute.layer_norm(x, scale.clone(), shift.clone(), 1e-5))
            }),
            ("gradient of RMS norm", &|x| {
                let scale = Tensor::from_inner(row(9));
                gradient(x, &|x| compute.rms_norm(x, scale.clone(), 1e-5))
            }),
        ];
        for (name, operation) in operations {
            let all = values_of(operation(upload(&x, [MANY, width], (&device, format))));
            let alone = x
                .chunks_exact(100 * width)
                .flat_map(|rows| values_of(operation(upload(rows, [100, width], (&device, format)))));
            assert!(all.iter().copied().eq(alone), "{name} in {precision}");
        }
    }
}

/// Runs an Adam step on a device, on values in one format and gradients in another.
fn adam_step(device: &Device, parts: &[Vec<f64>; 4], format: Format, gradients: Format) -> [Vec<f64>; 3] {
    let [value, first, second, gradient] = [0, 1, 2, 3].map(|part: usize| {
        let format = if part == 3 { gradients } else { format };
        upload::<1>(&parts[part], [parts[part].len()], (device, format)).into_dispatch()
    });
    let rates = AdamRates {
        keep: 1.0 - 1e-5,
        share1: 1.0 - 0.9,
        decay2: 0.999,
        share2: 1.0 - 0.999,
        correction1: 1.0 - 0.9f64.powi(3),
        correction2: (1.0 - 0.999f64.powi(3)).sqrt(),
        epsilon: 1e-8,
        learning_rate: 1e-3,
    };
    let (value, first, second) = Dispatch::adam(value, first, second, gradient, rates);
    [value, first, second].map(|part| values_of(Tensor::<1>::from_dispatch(part)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn fused_adam_matches_separate_operations_bit_for_bit(salt in any::<u64>(), count in 1usize..3000) {
        let device = Device::flex();
        for format in [Format::F64, Format::F32, Format::F16, Format::Bf16] {
            let wide = if format == Format::F64 { format } else { Format::F32 };
            for gradients in [format, wide] {
                let parts = [1, 2, 3, 4].map(|part: u64| {
                    let part_format = if part == 4 { gradients } else { format };
                    let mut values = values(count, salt ^ part, part_format);
                    if part == 3 {
                        values.iter_mut().for_each(|x| *x = part_format.round(0.01 * x.abs()).value);
                    }
                    values
                });
                let bits = |parts: [Vec<f64>; 3]| parts.map(|part| part.into_iter().map(f64::to_bits).collect::<Vec<_>>());
                // Under autodiff the default implementations run, which use burn's operations.
                prop_assert_eq!(
                    bits(adam_step(&device, &parts, format, gradients)),
                    bits(adam_step(&device.clone().autodiff(), &parts, format, gradients)),
                    "{} and gradients in {}", format, gradients
                );
            }
        }
    }
}

#[test]
fn copies_have_the_same_values_and_format() {
    let options = (&Device::flex(), Format::Bf16);
    let tensor = upload::<2>(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], options);
    let transposed = tensor.swap_dims(0, 1);
    let copied = mantissa_precision::copied(transposed.clone());
    assert_eq!(copied.dtype(), DType::BF16);
    assert_eq!(values_of(copied), values_of(transposed));
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use mantissa_precision::device::supports;
    use mantissa_testing::alone;

    use super::*;

    fn assert_near_in_supported_formats(device: &Device) {
        for precision in TRUE_PRECISIONS {
            if supports(precision.parameters(), device) {
                assert_near(device, precision);
            } else {
                println!("skipped: the device does not support {}", precision.parameters());
            }
        }
    }

    #[test]
    fn every_operation_is_within_its_tolerance() {
        if let Some(device) = crate::vulkan(false) {
            assert_near_in_supported_formats(&device);
        }
    }

    #[test]
    fn every_operation_in_fused_kernels_is_within_its_tolerance() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                assert_near_in_supported_formats(&device);
            }
        });
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use mantissa_testing::alone;

    use super::*;

    #[test]
    fn gradients_match_the_formulas() {
        if let Some(device) = crate::vulkan(false) {
            check_gradients(&device, Precision::True32, 60.0);
        }
    }

    #[test]
    fn gradients_match_the_formulas_with_fusion() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                check_gradients(&device, Precision::True32, 60.0);
            }
        });
    }
}
