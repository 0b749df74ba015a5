//! Timing one matrix product and comparing it with float64.

use std::time::{Duration, Instant};

use burn::tensor::{Tensor, TensorData};
use mantissa_core::{Cell, Distribution, Executed, Format, KernelTask, Samples, Series};
use mantissa_precision::{Compute, PrecisionBackend, dtype};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::{Measured, Observer, Outcome, Phase, Progress, WorkloadError, outcome::allocator};

/// Rows of the product that are compared with float64; the reference of a large product would take longer than all
/// measurements otherwise.
const COMPARED_ROWS: usize = 256;

/// Runs a kernel cell: `C = A · B`, square, operands stored in the format of the parameters. Under a mixed setting the
/// rounding of the operands is part of what is timed, as it is in training.
pub(crate) fn kernel<B: PrecisionBackend>(
    cell: &Cell,
    task: &KernelTask,
    device: &B::Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let mut report = |phase, done, total| {
        observer.progress(Progress {
            phase,
            done,
            total,
            allocator: allocator::<B>(device),
        });
    };
    let sync = || B::sync(device).map_err(|error| WorkloadError::Device(format!("{error:?}")));
    let n = cell.setting.size() as usize;
    let compute = Compute::of(&cell.setting);
    let stored = cell.setting.precision().parameters();

    report(Phase::Prepare, 0, 1);
    let started = Instant::now();
    let mut rng = ChaCha8Rng::seed_from_u64(cell.seed);
    let (lhs, rhs) = (
        operand(n, &cell.setting.distribution(), stored, &mut rng),
        operand(n, &cell.setting.distribution(), stored, &mut rng),
    );
    let upload = |values: &[f64]| {
        Tensor::<B, 2>::from_data(TensorData::new(values.to_vec(), [n, n]), (device, dtype(stored)))
    };
    let (lhs_tensor, rhs_tensor) = (upload(&lhs), upload(&rhs));
    sync()?;
    let load_seconds = started.elapsed().as_secs_f64();

    report(Phase::WarmUp, 0, 1);
    let started = Instant::now();
    let product = compute.matmul(lhs_tensor.clone(), rhs_tensor.clone());
    sync()?;
    let warmup_seconds = started.elapsed().as_secs_f64();
    let product = product
        .try_into_data()
        .map_err(|error| WorkloadError::Device(format!("{error:?}")))?;
    let product: Vec<f64> = product.iter::<f64>().collect();

    let mut launches = Series::new("launch_seconds", "s", "launch");
    let (cap, begun) = (Duration::from_secs_f64(task.max_seconds), Instant::now());
    for launch in 1..=task.max_samples {
        let started = Instant::now();
        let product = compute.matmul(lhs_tensor.clone(), rhs_tensor.clone());
        sync()?;
        launches.push(f64::from(launch), started.elapsed().as_secs_f64());
        drop(product);
        report(Phase::Measure, launch.into(), task.max_samples.into());
        if launch >= task.min_samples && begun.elapsed() > cap {
            break;
        }
    }

    report(Phase::Evaluate, 0, 1);
    let error = compare(&product, &lhs, &rhs, n, cell.setting.precision().compute());
    let diverged = (!error.finite).then(|| "the product holds values that are not finite".to_owned());
    Ok(Outcome {
        samples: Samples {
            series: vec![launches],
            test_correct: None,
        },
        events: vec![],
        diverged,
        data: None,
        executed: Executed::unverified(),
        load_seconds,
        warmup_seconds,
        measured: Measured::Kernel {
            flops: 2.0 * (n as f64).powi(3),
            relative_error: error.finite.then_some(error.relative),
            max_ulp: error.finite.then_some(error.max_ulp),
        },
    })
}

/// `n × n` values of a distribution, rounded to the format they will be stored in.
fn operand(n: usize, distribution: &Distribution, format: Format, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut draw = || match distribution {
        Distribution::Normal => rng.sample(StandardNormal),
        Distribution::Uniform => rng.random::<f64>(),
    };
    (0..n * n).map(|_| format.round(draw()).value).collect()
}

/// Difference between a product and its float64 reference.
#[derive(Debug, Clone, Copy)]
struct ProductError {
    /// Frobenius norm of the difference over that of the reference.
    relative: f64,
    /// Largest difference in units in the last place of the reference, in the output's format.
    max_ulp: f64,
    finite: bool,
}

/// Compares evenly spread rows of `product` with float64 on the same stored inputs.
fn compare(product: &[f64], lhs: &[f64], rhs: &[f64], n: usize, output: Format) -> ProductError {
    let rows: Vec<usize> = (0..COMPARED_ROWS.min(n))
        .map(|row| row * n / COMPARED_ROWS.min(n))
        .collect();
    let parts: Vec<(f64, f64, f64, bool)> = rows
        .par_iter()
        .map(|&row| {
            let mut reference = vec![0.0; n];
            for (k, &a) in lhs[row * n..(row + 1) * n].iter().enumerate() {
                reference
                    .iter_mut()
                    .zip(&rhs[k * n..(k + 1) * n])
                    .for_each(|(sum, b)| *sum += a * b);
            }
            let (mut difference, mut norm, mut max_ulp, mut finite) = (0.0, 0.0, 0.0f64, true);
            for (&got, want) in product[row * n..(row + 1) * n].iter().zip(reference) {
                let error = got - want;
                difference += error * error;
                norm += want * want;
                max_ulp = max_ulp.max(error.abs() / output.ulp(want));
                finite &= got.is_finite();
            }
            (difference, norm, max_ulp, finite)
        })
        .collect();
    let sum = |pick: fn(&(f64, f64, f64, bool)) -> f64| parts.iter().map(pick).sum::<f64>();
    ProductError {
        relative: (sum(|part| part.0) / sum(|part| part.1)).sqrt(),
        max_ulp: parts.iter().map(|part| part.2).fold(0.0, f64::max),
        finite: parts.iter().all(|part| part.3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_perturbed_product_is_the_perturbation() {
        let identity = [1.0, 0.0, 0.0, 1.0];
        let values = [1.0, 2.0, 3.0, 4.0];
        let exact = compare(&values, &identity, &values, 2, Format::F32);
        assert_eq!((exact.relative, exact.max_ulp, exact.finite), (0.0, 0.0, true));

        let mut off = values;
        off[3] += Format::F32.ulp(4.0);
        let error = compare(&off, &identity, &values, 2, Format::F32);
        assert_eq!(error.max_ulp, 1.0);
        assert!((error.relative - Format::F32.ulp(4.0) / 30f64.sqrt()).abs() < 1e-20);
        assert!(!compare(&[f64::NAN; 4], &identity, &values, 2, Format::F32).finite);
    }
}
