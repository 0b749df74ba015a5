//! Timing of launches, with the device clock or the wall clock.

use std::{ops::Range, time::Instant};

use burn::tensor::Device;
use mantissa_core::{Backend, Event, EventKind, Series, SeriesName};
use mantissa_precision::{Clock, Timed};

use crate::WorkloadError;

/// Clock and its times of empty launches.
pub(crate) struct Timing {
    clock: Clock,
    /// Name of the device clock.
    of_device: &'static str,
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
        best(&self.timed)
    }
}

/// Returns the time windows of launches, without excess capacity since there may be a million launches.
pub(crate) fn windows(launches: Vec<Launch>) -> Vec<Range<Instant>> {
    let mut windows: Vec<_> = launches.into_iter().map(|launch| launch.window).collect();
    windows.shrink_to_fit();
    windows
}

fn best(timed: &Timed) -> f64 {
    timed.device.unwrap_or(timed.wall)
}

/// Measures the overhead and the resolution of the wall clock, which times training steps. The device must be idle.
pub(crate) fn wall_clock(device: &Device) -> Result<Event, WorkloadError> {
    let timing = Timing::by(Clock::wall(), device)?;
    Ok(timing.event(WALL, |timed| Some(timed.wall), None))
}

/// Name of the clock that is available on every device.
pub(crate) const WALL: &str = "wall clock between two synchronisations";

/// Name of the clock of a CUDA device.
const EVENTS: &str = "CUDA events";

/// Times of all launches by one clock.
pub(crate) struct Read {
    /// Name of the clock.
    pub(crate) clock: &'static str,
    /// `launch_seconds`, and the wall-clock times if that is another clock.
    pub(crate) series: Vec<Series>,
    /// Event with the overhead and the resolution of the clock.
    pub(crate) event: Event,
}

impl Timing {
    /// Creates the best clock of a backend's device, which must be idle.
    pub(crate) fn of(backend: Backend, device: &Device) -> Result<Self, WorkloadError> {
        let timing = Self::by(Clock::of(device), device)?;
        Ok(Self {
            of_device: match backend {
                Backend::Vulkan => "Vulkan time stamps",
                _ => EVENTS,
            },
            ..timing
        })
    }

    fn by(clock: Clock, device: &Device) -> Result<Self, WorkloadError> {
        let nothing = || clock.time(device, || ()).map(|((), timed)| timed);
        let empty = std::iter::repeat_with(nothing).take(Self::EMPTY);
        let empty = empty.collect::<Result<_, _>>().map_err(WorkloadError::device)?;
        Ok(Self {
            clock,
            of_device: EVENTS,
            empty,
        })
    }

    /// Creates the clock of another program, from its times of empty launches.
    pub(crate) fn by_peer(empty: Vec<Timed>) -> Self {
        Self {
            clock: Clock::wall(),
            of_device: EVENTS,
            empty,
        }
    }

    /// Number of empty launches that measure the overhead of the clock.
    pub(crate) const EMPTY: usize = 64;

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
    pub(crate) fn read(&self, launches: &[Launch]) -> Read {
        let by_device = launches.iter().all(|launch| launch.timed.device.is_some());
        let series = |name, seconds: fn(&Timed) -> f64| {
            let mut series = Series::new(name);
            for (number, launch) in (1u32..).zip(launches) {
                series.push(f64::from(number), seconds(&launch.timed));
            }
            series
        };
        let any = launches.iter().any(|launch| launch.timed.device.is_some());
        let failure = !by_device && (any || self.clock.is_devices());
        let failure = failure.then_some("the device clock returned invalid times");
        let (clock, seconds): (_, fn(&Timed) -> f64) = if by_device {
            (self.of_device, best)
        } else {
            (WALL, |timed| timed.wall)
        };
        let wall = by_device.then(|| series(SeriesName::LaunchWallSeconds, |timed| timed.wall));
        Read {
            clock,
            series: [series(SeriesName::LaunchSeconds, seconds)]
                .into_iter()
                .chain(wall)
                .collect(),
            event: match by_device {
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
            of_device: EVENTS,
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
    fn the_device_clock_times_all_launches_or_none() {
        let both = [launch(Some(1.0), 1.5), launch(Some(2.0), 2.5)];
        let read = timing(&EMPTY).read(&both);
        assert_eq!(read.clock, "CUDA events");
        let values = |series: &Series| series.values().collect::<Vec<_>>();
        assert_eq!(values(&read.series[0]), [1.0, 2.0]);
        assert_eq!(
            (read.series[1].name, values(&read.series[1])),
            (SeriesName::LaunchWallSeconds, vec![1.5, 2.5])
        );

        let one = [launch(Some(1.0), 1.5), launch(None, 2.5)];
        let read = timing(&EMPTY).read(&one);
        assert_eq!(values(&read.series[0]), [1.5, 2.5]);
        assert_eq!(read.series.len(), 1);
        assert!(
            read.event.detail.contains("invalid times"),
            "{}",
            read.event.detail
        );
    }

    #[test]
    fn the_event_contains_overhead_and_resolution_of_the_clock() {
        let read = timing(&EMPTY).read(&[launch(None, 1.0)]);
        assert_eq!(
            read.event.detail,
            "wall clock between two synchronisations: an empty launch takes 11000 ns, included in every time; resolution 1000 ns or better"
        );
        let read = timing(&EMPTY[..1]).read(&[launch(Some(1.0), 1.0)]);
        assert!(
            read.event.detail.contains("resolution unknown"),
            "{}",
            read.event.detail
        );
    }
}
