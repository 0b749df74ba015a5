//! Times a copy that moves as many bytes as a memory-bound kernel. The speed of the copy is an upper bound of the kernel's speed.

use std::{ops::Range, time::Instant};

use burn::tensor::{Shape, Tensor};
use mantissa_core::{Event, KernelTask, Series, SeriesName};
use mantissa_precision::dtype;

use super::{
    cache::{Copies, RotatingCopies},
    operation::Inputs,
};
use crate::{
    WorkloadError,
    outcome::{read, sync},
    sampling::{sample, warm_up},
    timing::{Launch, Timing, windows},
};

/// Times of a copy.
pub(super) struct CopyTimes {
    /// Bytes read and written by a launch.
    pub(super) bytes: u64,
    /// `copy_seconds` by launch.
    pub(super) series: Series,
    /// Name of the clock.
    pub(super) clock: &'static str,
    /// Time window of each launch.
    pub(super) windows: Vec<Range<Instant>>,
    /// Events of warm-up and sampling.
    pub(super) events: Vec<Event>,
}

/// Copy that moves as many bytes as a kernel: half of them are read and half are written.
#[derive(Clone, Copy)]
pub(super) struct CopyBenchmark {
    /// Number of values that are read.
    pub(super) values: u64,
    /// Bytes of one value.
    width: u64,
    /// Number of copies of the input that are used in rotation.
    pub(super) copies: Copies,
}

impl CopyBenchmark {
    pub(super) fn new(traffic: u64, inputs: &Inputs<'_>, task: &KernelTask) -> Self {
        let width = u64::from(inputs.stored.storage_bytes());
        let values = traffic.div_ceil(2 * width);
        let copies = Copies::for_state(task.cache, inputs.setting.backend(), values * width);
        Self {
            values,
            width,
            copies,
        }
    }

    /// Times the copy by the same rules as the kernel, to measure the memory bandwidth. `launch` also returns true if the device was throttled.
    pub(super) fn time(
        self,
        task: &KernelTask,
        timing: &Timing,
        mut launch: impl FnMut() -> Result<(Launch, bool), WorkloadError>,
    ) -> Result<CopyTimes, WorkloadError> {
        let warm = warm_up(task, || Ok(launch()?.0.seconds()))?;
        let sampled = sample(task, |_| launch())?;
        let times = timing.launch_times(&sampled.launches);
        let seconds = times.series.into_iter().next();
        let events = warm.into_iter().chain(sampled.events).map(|event| Event {
            detail: format!("copy benchmark: {}", event.detail),
            ..event
        });
        Ok(CopyTimes {
            bytes: 2 * self.values * self.width,
            series: Series {
                name: SeriesName::CopySeconds,
                ..seconds.expect("the clock returns a series of times")
            },
            clock: times.clock,
            windows: windows(sampled.launches),
            events: events.collect(),
        })
    }
}

/// Times the copy on a burn device.
pub(super) fn time_copy(
    traffic: u64,
    inputs: &Inputs<'_>,
    task: &KernelTask,
    timing: &Timing,
    is_throttled: impl Fn(Instant) -> bool,
) -> Result<CopyTimes, WorkloadError> {
    let (device, benchmark) = (inputs.device, CopyBenchmark::new(traffic, inputs, task));
    // All values except zeros are copied at the same speed, so any constant but 0 is suitable.
    let new = || {
        let size = Shape::new([benchmark.values as usize]);
        Tensor::<1>::full(size, 1.5, (device, dtype(inputs.stored)))
    };
    let mut rotation = RotatingCopies::new(new(), benchmark.copies, new);
    sync(device)?;
    let mut last = None;
    let times = benchmark.time(task, timing, || {
        last = None;
        let values = rotation.next().clone();
        let (result, launch) = timing.time(device, || mantissa_precision::copied(values))?;
        last = Some(result);
        let throttled = is_throttled(launch.window.start);
        Ok((launch, throttled))
    })?;
    if let Some(last) = last {
        let _: Vec<f64> = read(last)?;
    }
    Ok(times)
}
