//! Observer of a running workload: measured phase, memory peaks and progress.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use mantissa_core::{Phase, Series, SeriesName};
use mantissa_runner::{Advance, MemorySoFar};
use mantissa_telemetry::{Peaks, Sampler, Trace};
use mantissa_workloads::{AllocatorBytes, Observer, Progress};

use crate::heap;

/// Observer that records the progress of a workload. It must be cheap, since it is called between timed steps.
pub(crate) struct CellObserver<'a> {
    sampler: Sampler,
    latest: &'a Mutex<Advance>,
    weights_file: Option<PathBuf>,
    /// Start of the measured phase, in seconds since the sampler started.
    measure_start: Option<f64>,
    /// Last time at which the measured phase ended, in seconds since the sampler started.
    measure_end: Option<f64>,
    phase: Phase,
    /// Memory peaks up to the call of [`Observer::memory_peak_reached`]; `None` before this call.
    peaks: Option<Peaks>,
    allocator: Option<AllocatorBytes>,
    reserved: Series,
    in_use: Series,
}

/// Measurements of the observer, complete after the workload has finished.
pub(crate) struct Observations {
    pub(crate) trace: Trace,
    /// Time 0 of the trace.
    pub(crate) started: Instant,
    pub(crate) window: Range<f64>,
    pub(crate) peaks: Peaks,
    pub(crate) allocator: Option<AllocatorBytes>,
    pub(crate) allocator_series: Vec<Series>,
}

impl<'a> CellObserver<'a> {
    /// Starts observing; `latest` receives the progress, and `weights_file` the trained weights.
    pub(crate) fn new(sampler: Sampler, latest: &'a Mutex<Advance>, weights_file: Option<PathBuf>) -> Self {
        Self {
            sampler,
            latest,
            weights_file,
            measure_start: None,
            measure_end: None,
            phase: Phase::Prepare,
            peaks: None,
            allocator: None,
            reserved: Series::new(SeriesName::AllocatorReservedBytes),
            in_use: Series::new(SeriesName::AllocatorInUseBytes),
        }
    }

    /// Stops the sampler and returns the measurements.
    pub(crate) fn end(self) -> Observations {
        let end = if self.phase == Phase::Measure {
            None
        } else {
            self.measure_end
        };
        let end = end.unwrap_or_else(|| self.sampler.seconds());
        let start = self.measure_start.unwrap_or(end);
        let series = [self.reserved, self.in_use]
            .into_iter()
            .filter(|series| !series.x.is_empty());
        let started = self.sampler.started();
        let trace = self.sampler.stop();
        Observations {
            started,
            window: start..end,
            peaks: self.peaks.unwrap_or_else(|| trace.peaks()),
            allocator: self.allocator,
            allocator_series: series.collect(),
            trace,
        }
    }
}

impl Observer for CellObserver<'_> {
    fn progress(&mut self, progress: Progress) {
        let Progress {
            phase,
            done,
            total,
            allocator,
        } = progress;
        let now = self.sampler.seconds();
        if phase == Phase::Measure && self.measure_start.is_none() {
            self.measure_start = Some(now);
        }
        if phase != Phase::Measure && self.phase == Phase::Measure {
            self.measure_end = Some(now);
        }
        if self.phase == Phase::Prepare && phase != Phase::Prepare {
            // Exclude the memory for reading and tokenizing the data, which depends on whether the data is cached.
            self.sampler.reset_host_peak();
        }
        self.phase = phase;
        if let Some(AllocatorBytes { reserved, in_use }) = allocator {
            if self.peaks.is_none() {
                let peak = self.allocator.get_or_insert(AllocatorBytes { reserved, in_use });
                peak.reserved = peak.reserved.max(reserved);
                peak.in_use = peak.in_use.max(in_use);
            }
            push_compressed(&mut self.reserved, now, reserved as f64);
            push_compressed(&mut self.in_use, now, in_use as f64);
        }
        let so_far = MemorySoFar {
            reserved: self.allocator.map(|peak| peak.reserved),
            in_use: self.allocator.map(|peak| peak.in_use),
            ..MemorySoFar::default()
        };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Advance {
            phase,
            done,
            total,
            memory: so_far,
        };
    }

    fn weights_file(&self) -> Option<&Path> {
        self.weights_file.as_deref()
    }

    fn memory_peak_reached(&mut self) {
        self.peaks = Some(self.sampler.peaks());
    }

    fn is_throttled(&self, since: Instant) -> bool {
        let since = since.saturating_duration_since(self.sampler.started());
        self.sampler.is_throttled(since.as_secs_f64())
    }

    fn heap_bytes(&self) -> Option<u64> {
        Some(heap::allocated_bytes())
    }
}

/// Adds a point. Consecutive points with the same value are reduced to the first and the last one, because a kernel may be launched a million
/// times and each launch adds a point.
fn push_compressed(series: &mut Series, x: f64, y: f64) {
    let is_constant = matches!(series.y.as_slice(), [.., Some(a), Some(b)] if *a == y && *b == y);
    match series.x.last_mut() {
        Some(last) if is_constant => *last = x,
        _ => series.push(x, y),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn observe(steps: &[(Phase, Option<u64>)]) -> Observations {
        let latest = Mutex::new(Advance {
            phase: Phase::Prepare,
            done: 0,
            total: 0,
            memory: MemorySoFar::default(),
        });
        let mut observer = CellObserver::new(Sampler::start(vec![]), &latest, None);
        for (phase, bytes) in steps {
            let allocator = bytes.map(|in_use| AllocatorBytes {
                reserved: 2 * in_use,
                in_use,
            });
            observer.progress(Progress {
                phase: *phase,
                done: 0,
                total: 1,
                allocator,
            });
            std::thread::sleep(Duration::from_millis(2));
        }
        observer.end()
    }

    #[test]
    fn window_ends_with_the_last_measured_phase() {
        use Phase::{Evaluate, Measure, WarmUp};
        let all = observe(&[
            (WarmUp, None),
            (Measure, None),
            (Evaluate, None),
            (Measure, None),
            (Evaluate, None),
        ]);
        let length = all.window.end - all.window.start;
        assert!(
            length >= 0.006,
            "the window must contain three phases of 2 ms: {length}"
        );
        let none = observe(&[(WarmUp, None)]);
        assert_eq!(none.window.start, none.window.end);
    }

    #[test]
    fn allocator_peaks_are_the_largest_readings() {
        let observations = observe(&[
            (Phase::Measure, Some(10)),
            (Phase::Measure, Some(30)),
            (Phase::Measure, Some(20)),
        ]);
        assert_eq!(
            observations.allocator,
            Some(AllocatorBytes {
                reserved: 60,
                in_use: 30
            })
        );
        assert_eq!(observations.allocator_series.len(), 2);
        assert!(observe(&[(Phase::Measure, None)]).allocator_series.is_empty());
    }
}
