//! Cooldown of a GPU between two cells, so that the heat of a cell does not affect the next one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Tolerance above the temperature before the first cell, in degrees Celsius. Under load, a GPU is tens of degrees
/// warmer. The last few degrees depend on the heat sink and the room, and sensors report whole degrees.
pub(crate) const WITHIN_CELSIUS: f64 = 5.0;

/// Polling interval: as short as the temperature sensor allows, and long enough to disturb no other process.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// State of a GPU before its first cell, stored in `devices.json`. A resumed run needs it because the GPU may still be
/// warm from the last cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuBaseline {
    /// Core temperature in degrees Celsius.
    pub(crate) celsius: Option<f64>,
    /// Idle power in watts.
    pub(crate) idle_watts: Option<f64>,
    /// Reason for which the idle power could not be read.
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
    /// Returns true if the GPU is as cool as before the first cell and not throttled.
    fn is_back(&self, before: Option<f64>) -> bool {
        let warm = |(now, before): (f64, f64)| now > before + WITHIN_CELSIUS;
        self.throttle.is_empty() && !self.celsius.zip(before).is_some_and(warm)
    }
}

/// Result of a cooldown.
#[derive(Debug, PartialEq)]
pub(crate) struct Cooldown {
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Temperature at the end, remaining reasons for throttling, and whether the time limit was reached, as text.
    pub(crate) detail: String,
}

/// Waits at most for `limit` until the GPU has cooled down to the temperature `before` in degrees Celsius, if it is
/// known. Returns `None` if no wait was necessary. `look` returns `None` once the GPU cannot be queried; `pause`
/// returns false if the wait has to end.
pub(crate) fn cool_down(
    before: Option<f64>,
    limit: Duration,
    mut look: impl FnMut() -> Option<GpuState>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Option<Cooldown> {
    let mut now = look()?;
    let mut waited = Duration::ZERO;
    while !now.is_back(before) && waited < limit {
        let next = LOOK.min(limit - waited);
        if !pause(next) {
            break;
        }
        waited += next;
        now = look()?;
    }
    (!waited.is_zero() || !now.is_back(before)).then(|| Cooldown {
        seconds: waited.as_secs_f64(),
        detail: describe(before, &now),
    })
}

fn describe(before: Option<f64>, now: &GpuState) -> String {
    let celsius =
        |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| format!("{value} °C"));
    let mut text = format!(
        "{} after {} before the first cell",
        celsius(now.celsius),
        celsius(before)
    );
    if !now.throttle.is_empty() {
        text = format!("{text}, clock throttled: {}", now.throttle.join(", "));
    }
    if !now.is_back(before) {
        text = format!("{text}: not back within the time limit");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(celsius: f64) -> GpuState {
        GpuState {
            celsius: Some(celsius),
            throttle: vec![],
        }
    }

    /// Runs a cooldown of at most a second with these states, the last of which repeats.
    fn rested(looks: &[GpuState]) -> Option<Cooldown> {
        let mut left = looks.iter();
        let mut last = None;
        let look = || {
            last = left.next().cloned().or(last.take());
            last.clone()
        };
        cool_down(Some(40.0), Duration::from_secs(1), look, |_| true)
    }

    #[test]
    fn a_gpu_that_is_as_cool_as_before_waits_for_nothing() {
        assert_eq!(rested(&[at(40.0)]), None);
        assert_eq!(rested(&[at(45.0)]), None, "within a few degrees");
        assert_eq!(
            rested(&[GpuState::default()]),
            None,
            "no wait for an unknown temperature"
        );
        assert_eq!(rested(&[]), None, "a GPU that cannot be queried");
    }

    #[test]
    fn a_warm_gpu_rests_until_it_is_cool() {
        let rest = rested(&[at(70.0), at(55.0), at(44.0)]).unwrap();
        assert_eq!(rest.seconds, 0.5);
        assert_eq!(rest.detail, "44 °C after 40 °C before the first cell");
    }

    #[test]
    fn a_gpu_that_stays_warm_is_waited_for_no_longer_than_the_limit() {
        let rest = rested(&[at(70.0)]).unwrap();
        assert_eq!(rest.seconds, 1.0);
        assert!(
            rest.detail.ends_with("not back within the time limit"),
            "{}",
            rest.detail
        );
    }

    #[test]
    fn a_clock_that_is_held_back_is_waited_for_too() {
        let held = GpuState {
            throttle: vec!["hardware slowdown"],
            ..at(40.0)
        };
        assert_eq!(rested(&[held.clone(), at(40.0)]).unwrap().seconds, 0.25);
        let stays = rested(&[held]).unwrap().detail;
        assert!(
            stays.contains("clock throttled: hardware slowdown: not back"),
            "{stays}"
        );
    }

    #[test]
    fn a_run_that_is_to_stop_rests_no_longer() {
        let rest = cool_down(Some(40.0), Duration::from_secs(9), || Some(at(70.0)), |_| false).unwrap();
        assert_eq!(rest.seconds, 0.0);
    }
}
