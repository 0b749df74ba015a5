//! Times the matmul of a kernel cell with NVIDIA's cuBLASLt, with the same operands on the same GPU.

use std::{ops::Range, time::Instant};

use mantissa_core::{Backend, Event, EventKind, KernelTask, Series, SeriesName};
use mantissa_precision::{Compute, CublasMatmul};

use super::{
    cache::{Copies, RotatingCopies},
    error::Formats,
    operation::{Inputs, MatmulOperands, Operation},
};
use crate::{
    WorkloadError,
    sampling::{sample, warm_up},
    timing::{Launch, Timing, windows},
};

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

/// Times the matmul of an operation by the same rules as the kernel. Returns `None` if the operation is not a single matmul, the backend is not
/// CUDA, or cuBLASLt is not installed. Returns the reason as an error if cuBLASLt cannot compute the matmul.
pub(super) fn time_cublas(
    operation: &impl Operation,
    inputs: &Inputs<'_>,
    task: &KernelTask,
    timing: &Timing,
    is_throttled: impl Fn(Instant) -> bool,
) -> Option<Result<CublasTimes, String>> {
    let operands = operation
        .matmul_operands()
        .filter(|_| inputs.setting.backend() == Backend::Cuda)?;
    let cublas = CublasMatmul::find(&Compute::of(inputs.setting), operands.shape)?;
    Some(cublas.and_then(|cublas| time(cublas, operation, &operands, (inputs, task, timing), is_throttled)))
}

fn time(
    mut cublas: CublasMatmul,
    operation: &impl Operation,
    operands: &MatmulOperands<'_>,
    (inputs, task, timing): (&Inputs<'_>, &KernelTask, &Timing),
    is_throttled: impl Fn(Instant) -> bool,
) -> Result<CublasTimes, String> {
    let width = u64::from(inputs.setting.precision().compute().storage_bytes());
    let bytes = (operands.lhs.len() + operands.rhs.len()) as u64 * width;
    let copies = Copies::for_state(task.cache, Backend::Cuda, bytes);
    let first = cublas.upload(operands.lhs, operands.rhs)?;
    let mut failed = None;
    let others = (1..copies.count()).map_while(|_| {
        let uploaded = cublas.upload(operands.lhs, operands.rhs);
        uploaded.map_err(|reason| failed = Some(reason)).ok()
    });
    let mut rotation = RotatingCopies::from_vec([first].into_iter().chain(others).collect());
    if let Some(reason) = failed {
        return Err(reason);
    }
    let mut launch = || {
        let begun = Instant::now();
        let timed = cublas.time(rotation.next()).map_err(WorkloadError::device)?;
        let window = begun..Instant::now();
        let throttled = is_throttled(window.start);
        Ok((Launch { window, timed }, throttled))
    };
    let to_reason = |error: WorkloadError| error.to_string();
    let warm = warm_up(task, || Ok(launch()?.0.seconds())).map_err(to_reason)?;
    let sampled = sample(task, |_| launch()).map_err(to_reason)?;
    let times = timing.launch_times(&sampled.launches);
    let seconds = times.series.into_iter().next();
    let error = operation.compare(&cublas.result()?, Formats::of(inputs.setting, task.kernel.kind()));
    let result_event = Event::new(
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
            ..seconds.expect("the clock returns a series of times")
        },
        clock: times.clock,
        windows: windows(sampled.launches),
        events: [result_event].into_iter().chain(events).collect(),
    })
}
