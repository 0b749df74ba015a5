//! Cooldown of a GPU between two cells, so that the heat of a cell does not affect the next one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Tolerated excess over the temperature before the first cell, in degrees Celsius. Under load, a GPU is tens of degrees warmer. The last few
/// degrees are tolerated because they depend on the heat sink and the room, and because sensors report whole degrees.
pub(crate) const TOLERANCE_CELSIUS: f64 = 5.0;

/// Polling interval: as short as the temperature sensor allows, and long enough not to disturb other processes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// State of a GPU before its first cell, stored in `devices.json`. A resumed run needs it because the GPU may still be
/// warm from the last cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuBaseline {
    /// Core temperature in degrees Celsius.
    pub(crate) celsius: Option<f64>,
    /// Idle power in watts.
    pub(crate) idle_watts: Option<f64>,
    /// Reason why the idle power is not known.
    pub(crate) unknown_idle: Option<String>,
}

/// State of a GPU during cooldown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GpuState {
    /// Core temperature in degrees Celsius.
    pub(crate) celsius: Option<f64>,
    /// Reasons for which the clock is throttled.
    pub(crate) throttle: Vec<&'static str>,
}

impl GpuState {
    /// Returns true if the GPU is not throttled and at most [`TOLERANCE_CELSIUS`] warmer than before the first cell.
    fn has_cooled_down(&self, before: Option<f64>) -> bool {
        let warm = |(now, before): (f64, f64)| now > before + TOLERANCE_CELSIUS;
        self.throttle.is_empty() && !self.celsius.zip(before).is_some_and(warm)
    }
}

/// Result of a cooldown.
#[derive(Debug, PartialEq)]
pub(crate) struct Cooldown {
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Text with the final temperature, remaining reasons for throttling, and a note if the time limit was reached.
    pub(crate) detail: String,
}

/// Waits until the GPU is not throttled and has cooled down to the temperature `before` (degrees Celsius, if known), but at most for
/// `limit`. Returns `None` if no wait was necessary, or if the GPU cannot be queried. `query` returns `None` if it cannot query the GPU.
/// `pause` sleeps, and returns false if the run was stopped.
pub(crate) fn cool_down(
    before: Option<f64>,
    limit: Duration,
    mut query: impl FnMut() -> Option<GpuState>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Option<Cooldown> {
    let mut now = query()?;
    let mut waited = Duration::ZERO;
    while !now.has_cooled_down(before) && waited < limit {
        let next = POLL_INTERVAL.min(limit - waited);
        if !pause(next) {
            break;
        }
        waited += next;
        now = query()?;
    }
    (!waited.is_zero() || !now.has_cooled_down(before)).then(|| Cooldown {
        seconds: waited.as_secs_f64(),
        detail: describe(before, &now),
    })
}

fn describe(before: Option<f64>, now: &GpuState) -> String {
    let celsius =
        |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| format!("{value} °C"));
    let mut text = format!(
        "{} ({} before the first cell)",
        celsius(now.celsius),
        celsius(before)
    );
    if !now.throttle.is_empty() {
        text = format!("{text}, clock throttled: {}", now.throttle.join(", "));
    }
    if !now.has_cooled_down(before) {
        text = format!("{text}, not cooled down within the time limit");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu_at(celsius: f64) -> GpuState {
        GpuState {
            celsius: Some(celsius),
            throttle: vec![],
        }
    }

    /// Runs a cooldown of at most one second in which the GPU has these states; the last state repeats.
    fn cooldown_of(states: &[GpuState]) -> Option<Cooldown> {
        let mut left = states.iter();
        let mut last = None;
        let query = || {
            last = left.next().cloned().or(last.take());
            last.clone()
        };
        cool_down(Some(40.0), Duration::from_secs(1), query, |_| true)
    }

    #[test]
    fn a_cool_gpu_causes_no_wait() {
        assert_eq!(cooldown_of(&[gpu_at(40.0)]), None);
        assert_eq!(cooldown_of(&[gpu_at(45.0)]), None, "within a few degrees");
        assert_eq!(
            cooldown_of(&[GpuState::default()]),
            None,
            "no wait for an unknown temperature"
        );
        assert_eq!(cooldown_of(&[]), None, "a GPU that cannot be queried");
    }

    #[test]
    fn a_warm_gpu_cools_down() {
        let cooldown = cooldown_of(&[gpu_at(70.0), gpu_at(55.0), gpu_at(44.0)]).unwrap();
        assert_eq!(cooldown.seconds, 0.5);
        assert_eq!(cooldown.detail, "44 °C (40 °C before the first cell)");
    }

    #[test]
    fn the_cooldown_ends_at_the_time_limit() {
        let cooldown = cooldown_of(&[gpu_at(70.0)]).unwrap();
        assert_eq!(cooldown.seconds, 1.0);
        assert!(
            cooldown.detail.ends_with("not cooled down within the time limit"),
            "{}",
            cooldown.detail
        );
    }

    #[test]
    fn a_throttled_clock_extends_the_cooldown() {
        let throttled = GpuState {
            throttle: vec!["hardware slowdown"],
            ..gpu_at(40.0)
        };
        let brief = cooldown_of(&[throttled.clone(), gpu_at(40.0)]).unwrap();
        assert_eq!(brief.seconds, 0.25);
        let detail = cooldown_of(&[throttled]).unwrap().detail;
        assert!(
            detail.contains("clock throttled: hardware slowdown, not cooled down"),
            "{detail}"
        );
    }

    #[test]
    fn a_stop_request_ends_the_cooldown() {
        let limit = Duration::from_secs(9);
        let cooldown = cool_down(Some(40.0), limit, || Some(gpu_at(70.0)), |_| false).unwrap();
        assert_eq!(cooldown.seconds, 0.0);
    }
}
