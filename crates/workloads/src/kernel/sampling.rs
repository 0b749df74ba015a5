//! Launching until times have settled, and then until their median is known.

use std::time::{Duration, Instant};

use mantissa_analysis::{Decision, MIN_SAMPLES, StopReason, Stopping, StoppingRule, WarmUp, Warmth};
use mantissa_core::{Event, KernelTask};

use crate::WorkloadError;

/// The most launches of a warm-up.
const MOST_WARM_UPS: usize = 400;

/// What sampling brought.
pub(super) struct Sampled {
    /// Seconds of each launch, in their order.
    pub(super) launches: Vec<f64>,
    /// How the warm-up ended, and why sampling stopped.
    pub(super) events: Vec<Event>,
}

/// Launches until times settle; the event that says so. No longer than the samples may take.
pub(super) fn warm_up(
    task: &KernelTask,
    mut launch: impl FnMut() -> Result<f64, WorkloadError>,
) -> Result<Option<Event>, WorkloadError> {
    if (task.max_samples as usize) < MIN_SAMPLES {
        return Ok(None);
    }
    let (cap, begun) = (Duration::from_secs_f64(task.max_seconds), Instant::now());
    let mut warm_up = WarmUp::new(MOST_WARM_UPS);
    for launches in 1u32.. {
        let detail = match warm_up.push(launch()?) {
            Warmth::Settled => "times had settled",
            Warmth::GaveUp => "times did not settle",
            Warmth::Warming if begun.elapsed() > cap => "times did not settle within the time cap",
            Warmth::Warming => continue,
        };
        return Ok(Some(event("warm-up", launches, detail)));
    }
    unreachable!("the warm-up gives up before it has run out of numbers")
}

/// Samples until half the 95 % interval of the median is within `max_noise` of it, or a limit is reached. The time cap
/// waits for `min_samples`.
pub(super) fn sample(
    task: &KernelTask,
    mut launch: impl FnMut(u32) -> Result<f64, WorkloadError>,
) -> Result<Sampled, WorkloadError> {
    let fewest = (task.min_samples as usize).max(MIN_SAMPLES);
    let most = (task.max_samples as usize).max(fewest);
    let rule = StoppingRule::new(task.max_noise, fewest, most, task.max_seconds);
    let mut stopping = Stopping::new(rule.expect("suites are checked when they are read"));
    let mut launches = vec![];
    for number in 1..=task.max_samples {
        let seconds = launch(number)?;
        launches.push(seconds);
        let reason = match stopping.push(seconds) {
            Decision::Stop(StopReason::TimeCap) if number < task.min_samples => None,
            Decision::Stop(reason) => Some(reason),
            Decision::Continue if number == task.max_samples => Some(StopReason::MaxSamples),
            Decision::Continue => None,
        };
        if let Some(reason) = reason {
            let events = vec![event("stopped", number, &reason.to_string())];
            return Ok(Sampled { launches, events });
        }
    }
    Ok(Sampled {
        events: vec![event(
            "stopped",
            task.max_samples,
            &StopReason::MaxSamples.to_string(),
        )],
        launches,
    })
}

fn event(kind: &str, launches: u32, detail: &str) -> Event {
    Event {
        kind: kind.to_owned(),
        step: Some(launches.into()),
        value: None,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Kernel, MatmulShape};

    use super::*;

    fn task(min_samples: u32, max_samples: u32, max_seconds: f64) -> KernelTask {
        KernelTask {
            kernel: Kernel::Matmul(MatmulShape::SQUARE),
            min_samples,
            max_samples,
            max_seconds,
            max_noise: 0.01,
        }
    }

    /// Number of samples and the reason, for launches of one second each, give or take a share.
    fn stopped(task: &KernelTask, noise: f64) -> (usize, String) {
        let sampled = sample(task, |number| Ok(1.0 + noise * f64::from(number).sin())).unwrap();
        (sampled.launches.len(), sampled.events[0].detail.clone())
    }

    #[test]
    fn each_limit_stops_and_is_named() {
        assert_eq!(stopped(&task(10, 1000, 1e6), 1e-4), (45, "noise reached".into()));
        assert_eq!(stopped(&task(10, 60, 1e6), 0.9), (60, "max samples".into()));
        assert_eq!(stopped(&task(10, 1000, 30.0), 0.9).1, "time cap");
        // The cap waits for the fewest samples; and few samples are as many as were asked for.
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
