//! Warm-up until times have settled, and sampling until their median is known.

use std::time::{Duration, Instant};

use mantissa_analysis::{Decision, MIN_SAMPLES, StopReason, Stopping, StoppingRule, WarmUp, WarmUpState};
use mantissa_core::{Event, EventKind, GenerateTask, KernelTask};
use mantissa_precision::Timed;

use crate::{WorkloadError, timing::Launch};

/// Maximum number of launches of a warm-up.
const MOST_WARM_UPS: usize = 400;

/// Pause after a launch during which the clock was throttled. Some thermal and power limits take that long to be lifted (NVML averages the power
/// over a tenth of a second).
const REST: Duration = Duration::from_millis(100);

/// Limits of sampling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Minimum number of samples.
    pub min_samples: u32,
    /// Maximum number of samples.
    pub max_samples: u32,
    /// Time limit of sampling in seconds, once there are `min_samples`.
    pub max_seconds: f64,
    /// Sampling stops if half the 95 % interval of the median is within this share of the median.
    pub max_noise: f64,
}

impl From<&KernelTask> for Limits {
    fn from(task: &KernelTask) -> Self {
        Self {
            min_samples: task.min_samples,
            max_samples: task.max_samples,
            max_seconds: task.max_seconds,
            max_noise: task.max_noise,
        }
    }
}

impl From<&GenerateTask> for Limits {
    fn from(task: &GenerateTask) -> Self {
        Self {
            min_samples: task.min_samples,
            max_samples: task.max_samples,
            max_seconds: task.max_seconds,
            max_noise: task.max_noise,
        }
    }
}

/// Result of sampling.
pub(crate) struct Sampled {
    /// All launches in order, including those that were repeated.
    pub(crate) launches: Vec<Launch>,
    /// Reason why sampling stopped, and the number of repeated launches.
    pub(crate) events: Vec<Event>,
}

/// Launches until times settle, for at most `max_seconds`. Returns an event with the result.
pub(crate) fn warm_up(
    limits: impl Into<Limits>,
    mut launch: impl FnMut() -> Result<f64, WorkloadError>,
) -> Result<Option<Event>, WorkloadError> {
    let limits = limits.into();
    if (limits.max_samples as usize) < MIN_SAMPLES {
        return Ok(None);
    }
    let (cap, begun) = (
        Duration::try_from_secs_f64(limits.max_seconds).unwrap_or(Duration::MAX),
        Instant::now(),
    );
    let mut warm_up = WarmUp::new(MOST_WARM_UPS);
    for launches in 1u32.. {
        let detail = match warm_up.push(launch()?) {
            WarmUpState::Settled => "times had settled",
            WarmUpState::GaveUp => "times did not settle",
            WarmUpState::Warming if begun.elapsed() > cap => "times did not settle within the time cap",
            WarmUpState::Warming => continue,
        };
        return Ok(Some(event(EventKind::WarmUp, launches, detail)));
    }
    unreachable!("the warm-up gives up before it has run out of numbers")
}

/// Samples until half the 95 % interval of the median is within `max_noise` of it, or a limit is reached. The time limit applies only after
/// `min_samples`.
///
/// A launch during which the clock was throttled is repeated after a pause, and stays among the samples, unless more than `max_samples` launches
/// were repeated or repetitions took more than `max_seconds`. From then on, throttled launches count as samples.
pub(crate) fn sample(
    limits: impl Into<Limits>,
    mut launch: impl FnMut(u32) -> Result<(Launch, bool), WorkloadError>,
) -> Result<Sampled, WorkloadError> {
    let limits = limits.into();
    let fewest = (limits.min_samples as usize).max(MIN_SAMPLES);
    let most = (limits.max_samples as usize).max(fewest);
    let rule = StoppingRule::new(limits.max_noise, fewest, most, limits.max_seconds);
    let mut clocks = Clocks::new(rule.expect("suites are checked when they are read"));
    let mut launches = vec![];
    let mut retakes = Retakes::default();
    let mut number = 1;
    loop {
        let (launch, held_back) = launch(number)?;
        let timed = launch.timed;
        clocks.meet(timed);
        let taken = launch.window.end - launch.window.start;
        launches.push(launch);
        if held_back && retakes.allowed(limits) {
            retakes.rest(taken);
            continue;
        }
        let reason = match clocks.push(timed) {
            Decision::Stop(StopReason::TimeCap) if number < limits.min_samples => None,
            Decision::Stop(reason) => Some(reason),
            Decision::Continue if number == limits.max_samples => Some(StopReason::MaxSamples),
            Decision::Continue => None,
        };
        if let Some(reason) = reason {
            let stopped = event(EventKind::Stopped, number, &reason.to_string());
            let events = [stopped].into_iter().chain(retakes.event()).collect();
            return Ok(Sampled { launches, events });
        }
        number += 1;
    }
}

/// Stopping rule for the device's clock and for the wall clock. If the device's clock fails for any launch, the wall clock is used for all
/// samples. The time limit always refers to the wall clock, since it limits the waiting time of the user.
struct Clocks {
    device: Option<Stopping>,
    wall: Stopping,
}

impl Clocks {
    fn new(rule: StoppingRule) -> Self {
        Self {
            device: Some(Stopping::new(rule)),
            wall: Stopping::new(rule),
        }
    }

    /// Checks the clock of a launch, even if the launch is repeated.
    fn meet(&mut self, timed: Timed) {
        if timed.device.is_none() {
            self.device = None;
        }
    }

    fn push(&mut self, timed: Timed) -> Decision {
        let by_wall = self.wall.push(timed.wall);
        let (Some(device), Some(seconds)) = (&mut self.device, timed.device) else {
            return by_wall;
        };
        let by_device = device.push(seconds);
        match by_wall {
            Decision::Stop(StopReason::TimeCap) if by_device == Decision::Continue => by_wall,
            _ => by_device,
        }
    }
}

/// Launches that are repeated.
#[derive(Default)]
struct Retakes {
    count: u32,
    /// Time of these launches and of the pauses after them.
    taken: Duration,
    /// True if a limit of repetitions was reached.
    given_up: bool,
}

impl Retakes {
    /// Returns true if another launch may be repeated.
    fn allowed(&mut self, limits: Limits) -> bool {
        let allowed = self.count < limits.max_samples && self.taken.as_secs_f64() < limits.max_seconds;
        self.given_up |= !allowed;
        allowed
    }

    /// Lets the device cool down after a launch of this duration.
    fn rest(&mut self, launch: Duration) {
        std::thread::sleep(REST);
        self.count += 1;
        self.taken += launch + REST;
    }

    fn event(&self) -> Option<Event> {
        let given_up = if self.given_up {
            "; then the limit was reached, and launches count although it still was"
        } else {
            ""
        };
        let detail = format!(
            "the clock was held back: launches were taken again after a rest of {} ms each, and stay among the samples{given_up}",
            REST.as_millis()
        );
        (self.count > 0).then(|| Event {
            step: None,
            value: Some(self.count.into()),
            ..event(EventKind::Retaken, self.count, &detail)
        })
    }
}

fn event(kind: EventKind, launches: u32, detail: &str) -> Event {
    Event {
        kind,
        step: Some(launches.into()),
        value: None,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{CacheState, Kernel, MatmulShape};

    use super::*;

    fn task(min_samples: u32, max_samples: u32, max_seconds: f64) -> KernelTask {
        KernelTask {
            kernel: Kernel::Matmul(MatmulShape::SQUARE),
            min_samples,
            max_samples,
            max_seconds,
            max_noise: 0.01,
            cache: CacheState::Cold,
        }
    }

    fn launch(seconds: f64) -> Launch {
        let now = Instant::now();
        let timed = Timed {
            device: None,
            wall: seconds,
        };
        Launch {
            window: now..now,
            timed,
        }
    }

    /// Returns the number of samples and the reason to stop, for launches of one second with relative `noise`.
    fn stopped(task: &KernelTask, noise: f64) -> (usize, String) {
        let sampled = sample(task, |number| {
            Ok((launch(1.0 + noise * f64::from(number).sin()), false))
        })
        .unwrap();
        (sampled.launches.len(), sampled.events[0].detail.clone())
    }

    #[test]
    fn launches_of_a_clock_that_is_held_back_are_taken_again() {
        let mut launches = 0;
        let sampled = sample(&task(3, 5, 1e6), |_| {
            launches += 1;
            Ok((launch(1.0), launches == 2))
        })
        .unwrap();
        assert_eq!(sampled.launches.len(), 6);
        assert_eq!(
            (sampled.events[1].kind, sampled.events[1].value),
            (EventKind::Retaken, Some(1.0))
        );
        assert!(!sampled.events[1].detail.contains("limit"));
    }

    #[test]
    fn a_clock_that_is_always_held_back_is_measured_as_it_is() {
        let sampled = sample(&task(3, 4, 0.15), |_| Ok((launch(1e-3), true))).unwrap();
        assert_eq!(
            sampled.launches.len(),
            2 + 4,
            "two rests are longer than the time cap"
        );
        assert!(sampled.events[1].detail.contains("the limit was reached"));
    }

    #[test]
    fn launches_that_take_long_are_taken_again_until_they_took_as_long_as_samples_may() {
        let long = Launch {
            window: {
                let now = Instant::now();
                now..now + Duration::from_secs(3)
            },
            timed: launch(3.0).timed,
        };
        let sampled = sample(&task(2, 100, 5.0), |_| Ok((long.clone(), true))).unwrap();
        assert_eq!(
            sampled.launches.len(),
            2 + 2,
            "two of three seconds are over five"
        );
        assert_eq!(sampled.events[1].value, Some(2.0));
    }

    /// Returns the number of samples and the reason to stop, for launches timed by both clocks.
    fn stopped_by(task: &KernelTask, mut timed: impl FnMut(u32) -> Timed) -> (usize, String) {
        let sampled = sample(task, |number| {
            let timed = timed(number);
            Ok((Launch { timed, ..launch(1.0) }, false))
        })
        .unwrap();
        (sampled.launches.len(), sampled.events[0].detail.clone())
    }

    #[test]
    fn the_clock_that_the_samples_are_read_by_stops() {
        // The device's clock is steady and the wall clock is not, until the device's clock fails.
        let steady = |number: u32| Timed {
            device: Some(1.0),
            wall: 2.0 + f64::from(number % 7),
        };
        let fails_at = |failure: u32| {
            move |number: u32| Timed {
                device: steady(number).device.filter(|_| number != failure),
                ..steady(number)
            }
        };
        let task_of = |seconds| task(20, 200, seconds);
        assert_eq!(stopped_by(&task_of(1e6), steady), (45, "noise reached".into()));
        assert_eq!(
            stopped_by(&task_of(1e6), fails_at(30)),
            (200, "max samples".into())
        );
        // Wall-clock samples from before the failure count.
        let both = |number: u32| Timed {
            device: Some(1.0 + f64::from(number % 7)).filter(|_| number != 60),
            wall: 10.0,
        };
        assert_eq!(stopped_by(&task_of(1e6), both).1, "noise reached");
        // A failure in a repeated launch counts, too.
        let mut retaken = false;
        let sampled = sample(&task_of(1e6), |number| {
            let first = !std::mem::replace(&mut retaken, true);
            let timed = Timed {
                device: steady(number).device.filter(|_| !first),
                ..steady(number)
            };
            Ok((Launch { timed, ..launch(1.0) }, first))
        });
        assert_eq!(sampled.unwrap().events[0].detail, "max samples");
        // Launches of one second on the device and about five on the wall clock.
        assert_eq!(stopped_by(&task_of(150.0), steady).1, "time cap");
    }

    #[test]
    fn each_limit_stops_and_is_named() {
        assert_eq!(stopped(&task(10, 1000, 1e6), 1e-4), (45, "noise reached".into()));
        assert_eq!(stopped(&task(10, 60, 1e6), 0.9), (60, "max samples".into()));
        assert_eq!(stopped(&task(10, 1000, 30.0), 0.9).1, "time cap");
        // The time limit applies after the minimum number of samples, and small numbers of samples are respected.
        assert_eq!(stopped(&task(10, 1000, 1.0), 0.9), (10, "time cap".into()));
        assert_eq!(stopped(&task(1, 1, 5.0), 0.0), (1, "max samples".into()));
    }

    #[test]
    fn a_warm_up_ends_when_times_are_alike_or_time_is_up() {
        let mut launches = 0;
        let mut falling = || {
            launches += 1;
            Ok(1.0 + 4.0 * (-f64::from(launches) / 5.0).exp())
        };
        let event = warm_up(&task(10, 1000, 1e6), &mut falling).unwrap().unwrap();
        assert_eq!(event.detail, "times had settled");
        assert!(event.step.unwrap() > 16, "{event:?}");
        let event = warm_up(&task(10, 1000, 1e-9), || Ok(1.0)).unwrap().unwrap();
        assert_eq!(event.detail, "times did not settle within the time cap");
        assert!(warm_up(&task(1, 1, 5.0), || Ok(1.0)).unwrap().is_none());
    }
}
