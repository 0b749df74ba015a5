//! Timing one operation and comparing it with float64.

mod attention;
mod convolution;
mod error;
mod inputs;
mod matmul;
mod sampling;

use std::time::Instant;

use burn::tensor::{Tensor, TensorData};
use mantissa_core::{Cell, Executed, Format, Kernel, KernelTask, Samples, Series, Setting};
use mantissa_precision::{Compute, PrecisionBackend, dtype};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use self::{
    error::{Formats, ResultError},
    sampling::{sample, warm_up},
};
use crate::{Measured, NumericError, Observer, Outcome, Phase, Progress, WorkloadError, outcome::allocator};

/// An operation on inputs that lie on the host and on the device, with a result of `D` dimensions.
trait Operation<B: PrecisionBackend, const D: usize> {
    /// Floating-point operations of a launch.
    fn flops(&self) -> f64;

    /// Computes the result.
    fn launch(&self, compute: &Compute) -> Tensor<B, D>;

    /// Compares a result with float64.
    fn compare(&self, result: &[f64], formats: Formats) -> ResultError;
}

/// Runs a kernel cell on operands stored in the format of the parameters. Under a mixed setting the rounding of the
/// operands is part of what is timed, as it is in training.
pub(crate) fn kernel<B: PrecisionBackend>(
    cell: &Cell,
    task: &KernelTask,
    device: &B::Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    observer.progress(Progress {
        phase: Phase::Prepare,
        done: 0,
        total: 1,
        allocator: allocator::<B>(device),
    });
    let begun = Instant::now();
    let mut inputs = Inputs::<B> {
        setting: &cell.setting,
        stored: cell.setting.precision().parameters(),
        rng: ChaCha8Rng::seed_from_u64(cell.seed),
        device,
    };
    let size = cell.setting.size();
    let measured = Measuring {
        setting: &cell.setting,
        task,
        begun,
    };
    match task.kernel {
        Kernel::Matmul(shape) => {
            let [batch, m, n, k] = shape.of(size);
            let operands = matmul::Operands::new([batch, m, n, k], &mut inputs);
            // A backend may treat a batch of one otherwise than a single product; models multiply matrices.
            if batch == 1 {
                let product = matmul::Product::<B, 2>::new(operands, [m, k], [k, n], &inputs);
                measured.measure(&product, device, observer)
            } else {
                let product = matmul::Product::<B, 3>::new(operands, [batch, m, k], [batch, k, n], &inputs);
                measured.measure(&product, device, observer)
            }
        }
        Kernel::Convolution(shape) => {
            let convolution = convolution::Convolution::<B>::new(shape, size as usize, &mut inputs);
            measured.measure(&convolution, device, observer)
        }
        Kernel::Attention(shape) => {
            let attention = attention::Attention::<B>::new(shape, size as usize, &mut inputs);
            measured.measure(&attention, device, observer)
        }
    }
}

/// Where inputs come from.
struct Inputs<'a, B: PrecisionBackend> {
    setting: &'a Setting,
    /// The format they are stored in.
    stored: Format,
    rng: ChaCha8Rng,
    device: &'a B::Device,
}

impl<B: PrecisionBackend> Inputs<'_, B> {
    /// Values of the setting's distribution, rounded to the format they will be stored in.
    fn draw(&mut self, count: usize) -> Vec<f64> {
        let mut values = inputs::draw(count, self.setting.distribution(), &mut self.rng);
        values.iter_mut().for_each(|x| *x = self.stored.round(*x).value);
        values
    }

    fn upload<const D: usize>(&self, values: &[f64], shape: [usize; D]) -> Tensor<B, D> {
        let data = TensorData::new(values.to_vec(), shape);
        Tensor::from_data(data, (self.device, dtype(self.stored)))
    }
}

/// How an operation is measured.
struct Measuring<'a> {
    setting: &'a Setting,
    task: &'a KernelTask,
    begun: Instant,
}

impl Measuring<'_> {
    fn measure<B: PrecisionBackend, const D: usize>(
        &self,
        operation: &impl Operation<B, D>,
        device: &B::Device,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, WorkloadError> {
        let task = self.task;
        let compute = Compute::of(self.setting);
        let mut report = |phase, done, total| {
            observer.progress(Progress {
                phase,
                done,
                total,
                allocator: allocator::<B>(device),
            });
        };
        let sync = || B::sync(device).map_err(|error| WorkloadError::Device(format!("{error:?}")));
        sync()?;
        let load_seconds = self.begun.elapsed().as_secs_f64();

        report(Phase::WarmUp, 0, 1);
        let started = Instant::now();
        let result = operation.launch(&compute);
        sync()?;
        let timed = || {
            let started = Instant::now();
            let result = operation.launch(&compute);
            sync()?;
            let seconds = started.elapsed().as_secs_f64();
            drop(result);
            Ok(seconds)
        };
        let warm = warm_up(task, timed)?;
        let warmup_seconds = started.elapsed().as_secs_f64();
        let result = result
            .try_into_data()
            .map_err(|error| WorkloadError::Device(format!("{error:?}")))?;
        let result: Vec<f64> = result.iter::<f64>().collect();

        let sampled = sample(task, |launch| {
            let seconds = timed()?;
            report(Phase::Measure, launch.into(), task.max_samples.into());
            Ok(seconds)
        })?;
        let mut launches = Series::new("launch_seconds", "s", "launch");
        for (launch, seconds) in (1u32..).zip(&sampled.launches) {
            launches.push(f64::from(launch), *seconds);
        }

        report(Phase::Evaluate, 0, 1);
        let error = operation.compare(&result, Formats::of(self.setting));
        let diverged = (!error.finite).then(|| "the result holds values that are not finite".to_owned());
        Ok(Outcome {
            samples: Samples {
                series: vec![launches, error.series()],
                test_correct: None,
            },
            events: warm.into_iter().chain(sampled.events).collect(),
            diverged,
            data: None,
            executed: Executed::unverified(),
            load_seconds,
            warmup_seconds,
            measured: Measured::Kernel {
                flops: operation.flops(),
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
}
