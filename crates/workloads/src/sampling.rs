//! Warm-up until times are stable, and sampling until the median is precise enough.

use std::time::{Duration, Instant};

use mantissa_analysis::{Decision, MIN_SAMPLES, StopReason, Stopping, StoppingRule, WarmUp, WarmUpState};
use mantissa_core::{Event, EventKind, GenerateTask, KernelTask};
use mantissa_precision::Timed;

use crate::{WorkloadError, timing::Launch};

/// Maximum number of launches of a warm-up.
const MAX_WARM_UP_LAUNCHES: usize = 400;

/// Pause after a throttled launch. Thermal and power limits can stay active this long, since NVML averages the power over a tenth of a
/// second.
const COOLDOWN: Duration = Duration::from_millis(100);

/// Limits of sampling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Minimum number of samples.
    pub min_samples: u32,
    /// Maximum number of samples.
    pub max_samples: u32,
    /// Time limit of sampling in seconds. It applies after `min_samples`.
    pub max_seconds: f64,
    /// Sampling stops if half the width of the median's 95 % interval is at most this share of the median.
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

/// Repeats launches until their times are stable, for at most `max_seconds`. Returns an event with the result.
pub(crate) fn warm_up(
    limits: impl Into<Limits>,
    mut launch: impl FnMut() -> Result<f64, WorkloadError>,
) -> Result<Option<Event>, WorkloadError> {
    let limits = limits.into();
    if (limits.max_samples as usize) < MIN_SAMPLES {
        return Ok(None);
    }
    let (time_limit, begun) = (
        Duration::try_from_secs_f64(limits.max_seconds).unwrap_or(Duration::MAX),
        Instant::now(),
    );
    let mut warm_up = WarmUp::new(MAX_WARM_UP_LAUNCHES);
    for launches in 1u32.. {
        let detail = match warm_up.push(launch()?) {
            WarmUpState::Settled => "times are stable",
            WarmUpState::GaveUp => "times did not become stable",
            WarmUpState::Warming if begun.elapsed() > time_limit => {
                "times did not become stable within the time limit"
            }
            WarmUpState::Warming => continue,
        };
        return Ok(Some(event(EventKind::WarmUp, launches, detail)));
    }
    unreachable!("the number of warm-up launches is limited")
}

/// Samples until half the width of the median's 95 % interval is at most `max_noise` times the median, or until a limit is reached. The time limit
/// applies only after `min_samples`.
///
/// A throttled launch is repeated after a cooldown. Its time is recorded, but does not count as a sample. After `max_samples` repetitions or
/// `max_seconds` of repetitions, throttled launches are no longer repeated and count as samples.
pub(crate) fn sample(
    limits: impl Into<Limits>,
    mut launch: impl FnMut(u32) -> Result<(Launch, bool), WorkloadError>,
) -> Result<Sampled, WorkloadError> {
    let limits = limits.into();
    let min_samples = (limits.min_samples as usize).max(MIN_SAMPLES);
    let max_samples = (limits.max_samples as usize).max(min_samples);
    let rule = StoppingRule::new(limits.max_noise, min_samples, max_samples, limits.max_seconds);
    let mut clocks = StoppingByClock::new(rule.expect("the limits of suites are validated"));
    let mut launches = vec![];
    let mut repeats = Repeats::default();
    let mut number = 1;
    loop {
        let (launch, throttled) = launch(number)?;
        let timed = launch.timed;
        clocks.check_clock(timed);
        let duration = launch.window.end - launch.window.start;
        launches.push(launch);
        if throttled && repeats.allowed(limits) {
            repeats.cool_down(duration);
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
            let events = [stopped].into_iter().chain(repeats.event()).collect();
            return Ok(Sampled { launches, events });
        }
        number += 1;
    }
}

/// Stopping rule for the device clock and for the wall clock. If the device clock fails for any launch, the wall clock is used for all samples.
/// The time limit always refers to the wall clock, since it limits how long the user waits.
struct StoppingByClock {
    device: Option<Stopping>,
    wall: Stopping,
}

impl StoppingByClock {
    fn new(rule: StoppingRule) -> Self {
        Self {
            device: Some(Stopping::new(rule)),
            wall: Stopping::new(rule),
        }
    }

    /// Switches to the wall clock if the device clock failed for this launch. Call it for repeated launches, too.
    fn check_clock(&mut self, timed: Timed) {
        if timed.device.is_none() {
            self.device = None;
        }
    }

    fn push(&mut self, timed: Timed) -> Decision {
        let wall_decision = self.wall.push(timed.wall);
        let (Some(device), Some(seconds)) = (&mut self.device, timed.device) else {
            return wall_decision;
        };
        let device_decision = device.push(seconds);
        match wall_decision {
            Decision::Stop(StopReason::TimeCap) if device_decision == Decision::Continue => wall_decision,
            _ => device_decision,
        }
    }
}

/// Repeated launches.
#[derive(Default)]
struct Repeats {
    count: u32,
    /// Time of the repeated launches and of the pauses after them.
    duration: Duration,
    /// True if a limit of repetitions was reached.
    limit_reached: bool,
}

impl Repeats {
    /// Returns true if another launch may be repeated.
    fn allowed(&mut self, limits: Limits) -> bool {
        let allowed = self.count < limits.max_samples && self.duration.as_secs_f64() < limits.max_seconds;
        self.limit_reached |= !allowed;
        allowed
    }

    /// Lets the device cool down after a launch of this duration.
    fn cool_down(&mut self, launch: Duration) {
        std::thread::sleep(COOLDOWN);
        self.count += 1;
        self.duration += launch + COOLDOWN;
    }

    fn event(&self) -> Option<Event> {
        let note = if self.limit_reached {
            "; the limit was reached, so later throttled launches were not repeated"
        } else {
            ""
        };
        let detail = format!(
            "throttled launches were repeated after a cooldown of {} ms each, and stay in the samples{note}",
            COOLDOWN.as_millis()
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
    fn sample_with_noise(task: &KernelTask, noise: f64) -> (usize, String) {
        let sampled = sample(task, |number| {
            Ok((launch(1.0 + noise * f64::from(number).sin()), false))
        })
        .unwrap();
        (sampled.launches.len(), sampled.events[0].detail.clone())
    }

    #[test]
    fn throttled_launches_are_repeated() {
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
    fn launches_that_are_always_throttled_count_as_samples() {
        let sampled = sample(&task(3, 4, 0.15), |_| Ok((launch(1e-3), true))).unwrap();
        assert_eq!(
            sampled.launches.len(),
            2 + 4,
            "two cooldowns exceed the time limit"
        );
        assert!(sampled.events[1].detail.contains("the limit was reached"));
    }

    #[test]
    fn long_launches_are_repeated_until_the_time_limit() {
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
            "two launches of three seconds exceed five seconds"
        );
        assert_eq!(sampled.events[1].value, Some(2.0));
    }

    /// Returns the number of samples and the reason to stop, for launches timed by both clocks.
    fn sample_with_clocks(task: &KernelTask, mut timed: impl FnMut(u32) -> Timed) -> (usize, String) {
        let sampled = sample(task, |number| {
            let timed = timed(number);
            Ok((Launch { timed, ..launch(1.0) }, false))
        })
        .unwrap();
        (sampled.launches.len(), sampled.events[0].detail.clone())
    }

    #[test]
    fn sampling_stops_by_the_device_clock_unless_it_fails() {
        // Times of the device clock are stable until the clock fails. Times of the wall clock vary from launch to launch.
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
        let task_with_limit = |seconds| task(20, 200, seconds);
        assert_eq!(
            sample_with_clocks(&task_with_limit(1e6), steady),
            (45, "noise reached".into())
        );
        assert_eq!(
            sample_with_clocks(&task_with_limit(1e6), fails_at(30)),
            (200, "max samples".into())
        );
        // The stopping rule counts all wall-clock samples, including those before the failure of the device clock.
        let both = |number: u32| Timed {
            device: Some(1.0 + f64::from(number % 7)).filter(|_| number != 60),
            wall: 10.0,
        };
        assert_eq!(sample_with_clocks(&task_with_limit(1e6), both).1, "noise reached");
        // A failure of the device clock in a repeated launch also switches to the wall clock.
        let mut started = false;
        let sampled = sample(&task_with_limit(1e6), |number| {
            let first = !std::mem::replace(&mut started, true);
            let timed = Timed {
                device: steady(number).device.filter(|_| !first),
                ..steady(number)
            };
            Ok((Launch { timed, ..launch(1.0) }, first))
        });
        assert_eq!(sampled.unwrap().events[0].detail, "max samples");
        // A launch takes one second on the device clock and about five on the wall clock, to which the time limit applies.
        assert_eq!(sample_with_clocks(&task_with_limit(150.0), steady).1, "time cap");
    }

    #[test]
    fn each_limit_stops_sampling_and_is_reported() {
        assert_eq!(
            sample_with_noise(&task(10, 1000, 1e6), 1e-4),
            (45, "noise reached".into())
        );
        assert_eq!(
            sample_with_noise(&task(10, 60, 1e6), 0.9),
            (60, "max samples".into())
        );
        assert_eq!(sample_with_noise(&task(10, 1000, 30.0), 0.9).1, "time cap");
        // The time limit applies only after the minimum number of samples. A limit of one sample is respected, too.
        assert_eq!(
            sample_with_noise(&task(10, 1000, 1.0), 0.9),
            (10, "time cap".into())
        );
        assert_eq!(
            sample_with_noise(&task(1, 1, 5.0), 0.0),
            (1, "max samples".into())
        );
    }

    #[test]
    fn warm_up_ends_when_times_are_stable_or_at_the_time_limit() {
        let mut launches = 0;
        let mut falling = || {
            launches += 1;
            Ok(1.0 + 4.0 * (-f64::from(launches) / 5.0).exp())
        };
        let event = warm_up(&task(10, 1000, 1e6), &mut falling).unwrap().unwrap();
        assert_eq!(event.detail, "times are stable");
        assert!(event.step.unwrap() > 16, "{event:?}");
        let event = warm_up(&task(10, 1000, 1e-9), || Ok(1.0)).unwrap().unwrap();
        assert_eq!(event.detail, "times did not become stable within the time limit");
        assert!(warm_up(&task(1, 1, 5.0), || Ok(1.0)).unwrap().is_none());
    }
}
