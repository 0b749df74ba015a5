//! Timing of launches, with the device clock or the wall clock.

use std::{ops::Range, time::Instant};

use burn::tensor::Device;
use mantissa_core::{Backend, Event, EventKind, Series, SeriesName};
use mantissa_precision::{Clock, Timed};

use crate::WorkloadError;

/// Clock with its measured overhead.
pub(crate) struct Timing {
    clock: Clock,
    /// Name of the device clock.
    device_clock_name: &'static str,
    /// Times of empty launches.
    empty: Vec<Timed>,
}

/// Timed launch.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// Time window from before the submission until the launch was complete.
    pub(crate) window: Range<Instant>,
    pub(crate) timed: Timed,
}

impl Launch {
    /// Returns the seconds by the best available clock.
    pub(crate) fn seconds(&self) -> f64 {
        best_seconds(&self.timed)
    }
}

/// Returns the time windows of launches, without excess capacity since there may be a million launches.
pub(crate) fn windows(launches: Vec<Launch>) -> Vec<Range<Instant>> {
    let mut windows: Vec<_> = launches.into_iter().map(|launch| launch.window).collect();
    windows.shrink_to_fit();
    windows
}

fn best_seconds(timed: &Timed) -> f64 {
    timed.device.unwrap_or(timed.wall)
}

/// Measures the overhead and the resolution of the wall clock, which times training steps. The device must be idle.
pub(crate) fn wall_clock(device: &Device) -> Result<Event, WorkloadError> {
    let timing = Timing::with_clock(Clock::wall(), device)?;
    Ok(timing.event(WALL_CLOCK, |timed| Some(timed.wall), None))
}

/// Name of the clock that is available on every device.
pub(crate) const WALL_CLOCK: &str = "wall clock between two synchronisations";

/// Name of the clock of a CUDA device.
const CUDA_EVENTS: &str = "CUDA events";

/// Times of all launches by one clock.
pub(crate) struct LaunchTimes {
    /// Name of the clock.
    pub(crate) clock: &'static str,
    /// `launch_seconds`, and the wall-clock times if that is another clock.
    pub(crate) series: Vec<Series>,
    /// Event with the overhead and the resolution of the clock.
    pub(crate) event: Event,
}

impl Timing {
    /// Creates the best clock of a backend's device. The device must be idle.
    pub(crate) fn for_backend(backend: Backend, device: &Device) -> Result<Self, WorkloadError> {
        let timing = Self::with_clock(Clock::of(device), device)?;
        Ok(Self {
            device_clock_name: match backend {
                Backend::Vulkan => "Vulkan time stamps",
                _ => CUDA_EVENTS,
            },
            ..timing
        })
    }

    fn with_clock(clock: Clock, device: &Device) -> Result<Self, WorkloadError> {
        let nothing = || clock.time(device, || ()).map(|((), timed)| timed);
        let empty = std::iter::repeat_with(nothing).take(Self::EMPTY_LAUNCHES);
        let empty = empty.collect::<Result<_, _>>().map_err(WorkloadError::device)?;
        Ok(Self {
            clock,
            device_clock_name: CUDA_EVENTS,
            empty,
        })
    }

    /// Creates the clock of another program, from its times of empty launches.
    pub(crate) fn for_peer(empty: Vec<Timed>) -> Self {
        Self {
            clock: Clock::wall(),
            device_clock_name: CUDA_EVENTS,
            empty,
        }
    }

    /// Number of empty launches that measure the overhead of the clock.
    pub(crate) const EMPTY_LAUNCHES: usize = 64;

    /// Times the launch of `work`.
    pub(crate) fn time<T>(
        &self,
        device: &Device,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Launch), WorkloadError> {
        let begun = Instant::now();
        let (result, timed) = self.clock.time(device, work).map_err(WorkloadError::device)?;
        let window = begun..Instant::now();
        Ok((result, Launch { window, timed }))
    }

    /// Returns the times of all launches by one clock: the device clock, or the wall clock if the device clock failed for any launch.
    pub(crate) fn launch_times(&self, launches: &[Launch]) -> LaunchTimes {
        let device_timed_all = launches.iter().all(|launch| launch.timed.device.is_some());
        let series = |name, seconds: fn(&Timed) -> f64| {
            let mut series = Series::new(name);
            for (number, launch) in (1u32..).zip(launches) {
                series.push(f64::from(number), seconds(&launch.timed));
            }
            series
        };
        let device_timed_any = launches.iter().any(|launch| launch.timed.device.is_some());
        let failure = !device_timed_all && (device_timed_any || self.clock.uses_device_clock());
        let failure = failure.then_some("the device clock returned invalid times");
        let (clock, seconds): (_, fn(&Timed) -> f64) = if device_timed_all {
            (self.device_clock_name, best_seconds)
        } else {
            (WALL_CLOCK, |timed| timed.wall)
        };
        let wall = device_timed_all.then(|| series(SeriesName::LaunchWallSeconds, |timed| timed.wall));
        LaunchTimes {
            clock,
            series: [series(SeriesName::LaunchSeconds, seconds)]
                .into_iter()
                .chain(wall)
                .collect(),
            event: match device_timed_all {
                true => self.event(clock, |timed| timed.device, failure),
                false => self.event(clock, |timed| Some(timed.wall), failure),
            },
        }
    }

    fn event(&self, clock: &str, seconds: fn(&Timed) -> Option<f64>, failure: Option<&str>) -> Event {
        let mut empty: Vec<f64> = self.empty.iter().filter_map(seconds).collect();
        empty.sort_by(f64::total_cmp);
        let overhead = empty.get(empty.len() / 2).copied();
        let resolution = empty
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .filter(|step| *step > 0.0)
            .fold(f64::INFINITY, f64::min);
        let resolution = match resolution.is_finite() {
            true => format!("resolution {:.0} ns or better", resolution * 1e9),
            false => "resolution unknown".to_owned(),
        };
        let reason = failure.or(self.clock.unavailable_reason());
        let reason = reason.map_or_else(String::new, |reason| format!("; {reason}"));
        let empty_launch = match overhead {
            Some(seconds) => format!("takes {:.0} ns, included in every time", seconds * 1e9),
            None => "takes less than the resolution".to_owned(),
        };
        Event {
            kind: EventKind::Clock,
            step: None,
            value: overhead,
            detail: format!("{clock}: an empty launch {empty_launch}; {resolution}{reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(device: Option<f64>, wall: f64) -> Launch {
        let now = Instant::now();
        Launch {
            window: now..now,
            timed: Timed { device, wall },
        }
    }

    fn timing(empty: &[Timed]) -> Timing {
        Timing {
            clock: Clock::of(&Device::flex()),
            device_clock_name: CUDA_EVENTS,
            empty: empty.to_vec(),
        }
    }

    const EMPTY: [Timed; 3] = [
        Timed {
            device: Some(2e-6),
            wall: 10e-6,
        },
        Timed {
            device: Some(2.5e-6),
            wall: 11e-6,
        },
        Timed {
            device: Some(2e-6),
            wall: 14e-6,
        },
    ];

    #[test]
    fn a_failure_of_the_device_clock_switches_to_the_wall_clock() {
        let both = [launch(Some(1.0), 1.5), launch(Some(2.0), 2.5)];
        let times = timing(&EMPTY).launch_times(&both);
        assert_eq!(times.clock, "CUDA events");
        let values = |series: &Series| series.values().collect::<Vec<_>>();
        assert_eq!(values(&times.series[0]), [1.0, 2.0]);
        assert_eq!(
            (times.series[1].name, values(&times.series[1])),
            (SeriesName::LaunchWallSeconds, vec![1.5, 2.5])
        );

        let one = [launch(Some(1.0), 1.5), launch(None, 2.5)];
        let times = timing(&EMPTY).launch_times(&one);
        assert_eq!(values(&times.series[0]), [1.5, 2.5]);
        assert_eq!(times.series.len(), 1);
        assert!(
            times.event.detail.contains("invalid times"),
            "{}",
            times.event.detail
        );
    }

    #[test]
    fn the_event_contains_overhead_and_resolution_of_the_clock() {
        let times = timing(&EMPTY).launch_times(&[launch(None, 1.0)]);
        assert_eq!(
            times.event.detail,
            "wall clock between two synchronisations: an empty launch takes 11000 ns, included in every time; resolution 1000 ns or better"
        );
        let times = timing(&EMPTY[..1]).launch_times(&[launch(Some(1.0), 1.0)]);
        assert!(
            times.event.detail.contains("resolution unknown"),
            "{}",
            times.event.detail
        );
    }
}
