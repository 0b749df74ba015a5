//! Times a single operation and compares its result with float64.

mod attention;
mod cache;
mod convolution;
mod copy;
mod cublas;
mod error;
mod inputs;
mod matmul;
mod operation;
mod peer;
mod rows;

use std::time::Instant;

use burn::tensor::Device;
use mantissa_core::{Cell, Event, Executed, Kernel, KernelTask, Samples};
use mantissa_precision::Compute;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub(crate) use peer::kernel_by_peer;

use self::{
    cache::{Copies, RotatingCopies},
    error::{Formats, ResultError},
    operation::{Inputs, OnBurn, Operation},
};
use crate::{
    Cublas, NumericError, Observer, Outcome, Phase, TaskMeasurements, Traffic, WorkloadError,
    outcome::{progress, read, sync},
    sampling::{sample, warm_up},
    timing::{Launch, LaunchTimes, Timing, windows},
};

/// Runs a kernel cell on operands stored in the format of the parameters. Under a mixed setting, the time includes rounding the operands, as in
/// training.
pub(crate) fn kernel(
    cell: &Cell,
    task: &KernelTask,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    progress(observer, device, Phase::Prepare, 0, 1);
    let begun = Instant::now();
    let mut inputs = Inputs {
        setting: &cell.setting,
        stored: cell.setting.precision().parameters(),
        rng: ChaCha8Rng::seed_from_u64(cell.seed),
        device,
    };
    let size = cell.setting.size();
    match task.kernel {
        Kernel::Matmul(shape) => {
            let operands = matmul::Operands::new(shape.of(size), &mut inputs);
            // Use two dimensions, as models do: a backend may compute a batch of one matmul differently from a single matmul.
            if operands.batch() == 1 {
                measure::<2>(&operands, &inputs, task, begun, observer)
            } else {
                measure::<3>(&operands, &inputs, task, begun, observer)
            }
        }
        Kernel::Convolution(shape) => {
            let convolution = convolution::Convolution::new(shape, size as usize, &mut inputs);
            measure(&convolution, &inputs, task, begun, observer)
        }
        Kernel::Attention(shape) => {
            let attention = attention::Attention::new(shape, size as usize, &mut inputs);
            measure(&attention, &inputs, task, begun, observer)
        }
        Kernel::AdamW(shape) => {
            let step = rows::AdamW::new(shape.of(size), &mut inputs);
            measure(&step, &inputs, task, begun, observer)
        }
        Kernel::Gelu(shape)
        | Kernel::Softmax(shape)
        | Kernel::LayerNorm(shape)
        | Kernel::RmsNorm(shape)
        | Kernel::Cast(shape) => {
            let rows = rows::Rows::new(task.kernel.kind(), shape.of(size), &mut inputs);
            measure(&rows, &inputs, task, begun, observer)
        }
    }
}

fn measure<const D: usize>(
    operation: &impl OnBurn<D>,
    inputs: &Inputs<'_>,
    task: &KernelTask,
    begun: Instant,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let (setting, device) = (inputs.setting, inputs.device);
    let compute = Compute::of(setting);
    // The copies below may fill a cache of hundreds of megabytes, so the values are converted only once.
    let on_host = operation.convert(inputs);
    let first = operation.upload(&on_host, device);
    sync(device)?;
    let load_seconds = begun.elapsed().as_secs_f64();

    progress(observer, device, Phase::WarmUp, 0, 1);
    let timing = Timing::for_backend(setting.backend(), device)?;
    // The first launch autotunes. It runs outside of a profiling window, because a candidate kernel that fails on the device would make the window
    // fail.
    let begun = Instant::now();
    let result = operation.launch(&first, &compute);
    sync(device)?;
    let first_seconds = begun.elapsed().as_secs_f64();
    // The memory now contains the inputs, the workspace and the result.
    progress(observer, device, Phase::WarmUp, 1, 1);
    let result: Vec<f64> = read(result)?;
    // The following copies only evict the cache, so they do not count as memory of the kernel.
    observer.memory_peak_reached();
    let bytes = operation.values() as u64 * u64::from(inputs.stored.storage_bytes());
    let copies = Copies::for_state(task.cache, setting.backend(), bytes);
    let mut rotation = RotatingCopies::new(first, copies, || operation.upload(&on_host, device));
    sync(device)?;

    let mut last = None;
    let mut next = || {
        // Free the previous result first, as a model does.
        last = None;
        let inputs = rotation.next();
        let (result, launch) = timing.time(device, || operation.launch(inputs, &compute))?;
        last = Some(result);
        Ok::<_, WorkloadError>(launch)
    };
    let started = Instant::now();
    let warm = warm_up(task, || Ok(next()?.seconds()))?;
    let warmup_seconds = first_seconds + started.elapsed().as_secs_f64();

    let sampled = sample(task, |number| {
        let launch = next()?;
        let throttled = observer.is_throttled(launch.window.start);
        progress(
            observer,
            device,
            Phase::Measure,
            number.into(),
            task.max_samples.into(),
        );
        Ok((launch, throttled))
    })?;

    // The following work does not belong to the kernel.
    progress(observer, device, Phase::Evaluate, 0, 1);
    // Read the last result: unlike a synchronization, a read reports a failed launch.
    if let Some(last) = last {
        let _: Vec<f64> = read(last)?;
    }
    // Free memory for the copy benchmark.
    drop(rotation);
    let is_throttled = |since| observer.is_throttled(since);
    let copy = match operation.traffic() {
        Some(traffic) => Some(copy::time_copy(traffic, inputs, task, &timing, is_throttled)?),
        None => None,
    };

    let cublas = cublas::time_cublas(operation, inputs, task, &timing, is_throttled);

    let measured = MeasuredKernel {
        error: operation.compare(&result, Formats::of(setting, task.kernel.kind())),
        values: result.len() as u64,
        flops: operation.flops(),
        copy: operation.traffic().zip(copy),
        cublas,
        times: timing.launch_times(&sampled.launches),
        launches: sampled.launches,
        events: warm.into_iter().chain(sampled.events).collect(),
        copies,
    };
    Ok(measured.outcome((load_seconds, warmup_seconds)))
}

/// Measurements of a kernel.
struct MeasuredKernel {
    error: ResultError,
    /// Number of values of the result.
    values: u64,
    flops: Option<f64>,
    /// Bytes of a launch, and the times of a copy of as many bytes.
    copy: Option<(u64, copy::CopyTimes)>,
    /// Times of the same matmul with cuBLASLt, or the reason why cuBLASLt cannot compute it.
    cublas: Option<Result<cublas::CublasTimes, String>>,
    times: LaunchTimes,
    launches: Vec<Launch>,
    events: Vec<Event>,
    copies: Copies,
}

impl MeasuredKernel {
    /// Builds the outcome. The argument contains the seconds of loading and of the warm-up.
    fn outcome(self, (load_seconds, warmup_seconds): (f64, f64)) -> Outcome {
        let Self {
            error,
            values,
            times,
            mut copy,
            mut cublas,
            ..
        } = self;
        let diverged = (!error.finite).then(|| "some values of the result are not finite".to_owned());
        let mut series = times.series;
        series.push(error.series());
        if let Some((_, copy)) = &mut copy {
            // Move instead of clone: there may be a million launches.
            let empty = mantissa_core::Series::new(copy.series.name);
            series.push(std::mem::replace(&mut copy.series, empty));
        }
        if let Some(Ok(cublas)) = &mut cublas {
            let empty = mantissa_core::Series::new(cublas.series.name);
            series.push(std::mem::replace(&mut cublas.series, empty));
        }
        let cublas_events = cublas.iter().flatten().flat_map(|cublas| cublas.events.clone());
        let copy_events = copy.iter().flat_map(|(_, copy)| copy.events.clone());
        let events: Vec<Event> = self
            .events
            .into_iter()
            .chain(copy_events)
            .chain(cublas_events)
            .collect();
        Outcome {
            samples: Samples {
                series,
                test_correct: None,
                ranges: vec![],
                trials: vec![],
                staleness: vec![],
            },
            events: events
                .into_iter()
                .chain([times.event, self.copies.event()])
                .collect(),
            diverged,
            data: None,
            executed: Executed::unverified(),
            load_seconds,
            warmup_seconds,
            launches: None,
            measured: TaskMeasurements::Kernel {
                flops: self.flops,
                traffic: copy.map(|(moved, copy)| Traffic {
                    values,
                    moved,
                    copied: copy.bytes,
                    clock: copy.clock,
                    windows: copy.windows,
                }),
                cublas: cublas.map(|cublas| {
                    cublas.map(|cublas| Cublas {
                        clock: cublas.clock,
                        windows: cublas.windows,
                    })
                }),
                clock: times.clock,
                windows: windows(self.launches),
                error: error.finite.then_some(NumericError {
                    relative: error.relative,
                    quantisation: error.quantisation,
                    accumulation: error.accumulation,
                    rounding: error.rounding,
                    bias: error.bias,
                    max_ulp: error.max_ulp,
                }),
            },
        }
    }
}
