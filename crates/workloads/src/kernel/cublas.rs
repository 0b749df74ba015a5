//! Times the matmul of a kernel cell with NVIDIA's cuBLASLt, with the same operands on the same GPU.

use std::{ops::Range, time::Instant};

use mantissa_core::{Backend, Event, EventKind, KernelTask, Series, SeriesName};
use mantissa_precision::{Compute, CublasMatmul};

use super::{
    Inputs, Operation,
    cache::{Copies, RotatingCopies},
    error::Formats,
};
use crate::{
    WorkloadError,
    sampling::{sample, warm_up},
    timing::{Launch, Timing, windows},
};

/// Matmul of two row-major matrices.
pub(super) struct Product<'a> {
    /// `[m, n, k]`.
    pub(super) shape: [usize; 3],
    /// `[m, k]`.
    pub(super) lhs: &'a [f64],
    /// `[k, n]`.
    pub(super) rhs: &'a [f64],
}

/// Times of cuBLASLt.
pub(super) struct CublasTimes {
    /// `cublas_seconds` by launch.
    pub(super) series: Series,
    /// Name of the clock.
    pub(super) clock: &'static str,
    /// Time window of each launch.
    pub(super) windows: Vec<Range<Instant>>,
    /// Version, error of the result, and events of warm-up and sampling.
    pub(super) events: Vec<Event>,
}

/// Times the matmul of an operation by the same rules as the kernel. Returns `None` if the operation is not a matmul, if the backend is not CUDA
/// or if cuBLASLt is not installed, and the reason if cuBLASLt cannot compute the matmul.
pub(super) fn beside(
    operation: &impl Operation,
    inputs: &Inputs<'_>,
    task: &KernelTask,
    timing: &Timing,
    throttled: impl Fn(Instant) -> bool,
) -> Option<Result<CublasTimes, String>> {
    let product = operation
        .product()
        .filter(|_| inputs.setting.backend() == Backend::Cuda)?;
    let cublas = CublasMatmul::find(&Compute::of(inputs.setting), product.shape)?;
    Some(cublas.and_then(|cublas| time(cublas, operation, &product, (inputs, task, timing), throttled)))
}

fn time(
    mut cublas: CublasMatmul,
    operation: &impl Operation,
    product: &Product<'_>,
    (inputs, task, timing): (&Inputs<'_>, &KernelTask, &Timing),
    throttled: impl Fn(Instant) -> bool,
) -> Result<CublasTimes, String> {
    let width = u64::from(inputs.setting.precision().compute().storage_bytes());
    let bytes = (product.lhs.len() + product.rhs.len()) as u64 * width;
    let copies = Copies::of(task.cache, Backend::Cuda, bytes);
    let first = cublas.upload(product.lhs, product.rhs)?;
    let mut failed = None;
    let others = (1..copies.count()).map_while(|_| {
        let uploaded = cublas.upload(product.lhs, product.rhs);
        uploaded.map_err(|reason| failed = Some(reason)).ok()
    });
    let mut turns = RotatingCopies::of([first].into_iter().chain(others).collect());
    if let Some(reason) = failed {
        return Err(reason);
    }
    let mut launch = || {
        let begun = Instant::now();
        let timed = cublas.time(turns.next()).map_err(WorkloadError::device)?;
        let window = begun..Instant::now();
        let throttled = throttled(window.start);
        Ok((Launch { window, timed }, throttled))
    };
    let reason = |error: WorkloadError| error.to_string();
    let warm = warm_up(task, || Ok(launch()?.0.seconds())).map_err(reason)?;
    let sampled = sample(task, |_| launch()).map_err(reason)?;
    let read = timing.read(&sampled.launches);
    let times = read.series.into_iter().next();
    let error = operation.compare(&cublas.result()?, Formats::of(inputs.setting, task.kernel.kind()));
    let computed = Event::new(
        EventKind::Cublas,
        format!(
            "cuBLASLt {}: relative error {:.2e}",
            cublas.version(),
            error.relative
        ),
    );
    let events = warm.into_iter().chain(sampled.events).map(|event| Event {
        detail: format!("cuBLASLt: {}", event.detail),
        ..event
    });
    Ok(CublasTimes {
        series: Series {
            name: SeriesName::CublasSeconds,
            ..times.expect("the clock returns a series of times")
        },
        clock: read.clock,
        windows: windows(sampled.launches),
        events: [computed].into_iter().chain(events).collect(),
    })
}
