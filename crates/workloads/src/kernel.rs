//! Timing one matrix product and comparing it with float64.

mod error;

use std::time::{Duration, Instant};

use burn::tensor::{Tensor, TensorData};
use mantissa_core::{Cell, Distribution, Executed, Format, KernelTask, Samples, Series};
use mantissa_precision::{Compute, PrecisionBackend, dtype};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use self::error::{Factors, Formats, compare};
use crate::{Measured, NumericError, Observer, Outcome, Phase, Progress, WorkloadError, outcome::allocator};

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
    let (lhs, rhs) = operands(n, cell.setting.distribution(), stored, &mut rng);
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
    let factors = Factors {
        lhs: &lhs,
        rhs: &rhs,
        n,
    };
    let computed = cell.setting.precision().compute();
    let formats = Formats {
        stored,
        operand: match computed {
            Format::F32 => cell.setting.matmul().operand(),
            half_or_double => half_or_double,
        },
        output: computed,
    };
    let error = compare(&product, factors, formats);
    let diverged = (!error.finite).then(|| "the product holds values that are not finite".to_owned());
    Ok(Outcome {
        samples: Samples {
            series: vec![launches, error.series()],
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
            error: error.finite.then_some(NumericError {
                relative: error.relative,
                quantisation: error.quantisation,
                accumulation: error.accumulation,
                rounding: error.rounding,
                bias: error.bias,
                max_ulp: error.max_ulp,
            }),
        },
    })
}

/// Two `n × n` matrices of a distribution, rounded to the format they will be stored in.
fn operands(
    n: usize,
    distribution: Distribution,
    format: Format,
    rng: &mut ChaCha8Rng,
) -> (Vec<f64>, Vec<f64>) {
    /// What is left of two cancelling products, of either.
    const LEFT: f64 = 1.0 / 64.0;
    let mut normal = || -> f64 { rng.sample(StandardNormal) };
    let (mut lhs, mut rhs): (Vec<f64>, Vec<f64>) = match distribution {
        Distribution::Normal | Distribution::Cancellation => (
            (0..n * n).map(|_| normal()).collect(),
            (0..n * n).map(|_| normal()).collect(),
        ),
        Distribution::Lognormal => (
            (0..n * n).map(|_| normal().exp()).collect(),
            (0..n * n).map(|_| normal().exp()).collect(),
        ),
        Distribution::Uniform => (
            (0..n * n).map(|_| rng.random()).collect(),
            (0..n * n).map(|_| rng.random()).collect(),
        ),
    };
    if distribution == Distribution::Cancellation {
        // Neighbouring terms of every inner product have one left factor and nearly opposite right ones.
        for row in lhs.chunks_exact_mut(n) {
            row.chunks_exact_mut(2).for_each(|pair| pair[1] = pair[0]);
        }
        for pair in rhs.chunks_exact_mut(2 * n) {
            let (first, second) = pair.split_at_mut(n);
            for (a, b) in first.iter().zip(second) {
                *b = -a * (1.0 + LEFT * *b);
            }
        }
    }
    for matrix in [&mut lhs, &mut rhs] {
        matrix.iter_mut().for_each(|x| *x = format.round(*x).value);
    }
    (lhs, rhs)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn cancelling_operands_cancel_and_none_are_zero() {
        let n = 64;
        let norm = |distribution| {
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let (lhs, rhs) = operands(n, distribution, Format::F32, &mut rng);
            assert!(lhs.iter().chain(&rhs).all(|x| *x != 0.0), "{distribution}");
            let (mut sums, mut sizes) = (0.0, 0.0);
            for i in 0..n {
                for j in 0..n {
                    let terms = (0..n).map(|k| lhs[i * n + k] * rhs[k * n + j]);
                    sums += terms.clone().sum::<f64>().abs();
                    sizes += terms.map(f64::abs).sum::<f64>();
                }
            }
            sums / sizes
        };
        assert!(norm(Distribution::Cancellation) < 0.01);
        assert!(norm(Distribution::Normal) > 0.05);
        // All positive: nothing cancels.
        assert!((norm(Distribution::Lognormal) - 1.0).abs() < 1e-9);
        assert!((norm(Distribution::Uniform) - 1.0).abs() < 1e-9);
    }
}
