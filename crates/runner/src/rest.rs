//! The rest of a GPU between two cells: what the last one left of its heat is no part of the next one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How far above its temperature before the first cell a GPU may still be, degrees Celsius. Under load it is tens of
/// degrees above it; the last few leave at the pace of the heat sink and of the room, and sensors count whole degrees.
pub(crate) const WITHIN_CELSIUS: f64 = 5.0;

/// Time between two looks: as short as the temperature sensor is worth, as long as it disturbs nobody.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// `devices.json`: a GPU before its first cell. It is kept with the run, because a run that is taken up again finds the GPU as warm as the
/// last cell left it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AtRest {
    /// Its core, degrees Celsius.
    pub(crate) celsius: Option<f64>,
    /// What it drew while nobody computed on it, watts.
    pub(crate) idle_watts: Option<f64>,
    /// Why that could not be read.
    pub(crate) unknown_idle: Option<String>,
}

/// What can be seen of a GPU at rest.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Look {
    /// Its core, degrees Celsius.
    pub(crate) celsius: Option<f64>,
    /// Why its clock is held back.
    pub(crate) throttle: Vec<&'static str>,
}

impl Look {
    /// Whether it is as it was before the first cell.
    fn is_back(&self, before: Option<f64>) -> bool {
        let warm = |(now, before): (f64, f64)| now > before + WITHIN_CELSIUS;
        self.throttle.is_empty() && !self.celsius.zip(before).is_some_and(warm)
    }
}

/// What a rest came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Rest {
    /// How long it was, seconds.
    pub(crate) seconds: f64,
    /// Temperature at its end, what still held the clock, and whether it was long enough, in words.
    pub(crate) detail: String,
}

/// Waits until the GPU is back at the degrees Celsius of `before`, where they are known, at most for `limit`. Absent if there was nothing to wait for. `look` is absent once the
/// GPU cannot be asked; `pause` is false when there is no more time to wait for anything.
pub(crate) fn rest(
    before: Option<f64>,
    limit: Duration,
    mut look: impl FnMut() -> Option<Look>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Option<Rest> {
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
    (!waited.is_zero() || !now.is_back(before)).then(|| Rest {
        seconds: waited.as_secs_f64(),
        detail: describe(before, &now),
    })
}

fn describe(before: Option<f64>, now: &Look) -> String {
    let celsius =
        |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| format!("{value} °C"));
    let mut words = format!(
        "{} after {} before the first cell",
        celsius(now.celsius),
        celsius(before)
    );
    if !now.throttle.is_empty() {
        words = format!("{words}, clock held back: {}", now.throttle.join(", "));
    }
    if !now.is_back(before) {
        words = format!("{words}: not back within the limit");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(celsius: f64) -> Look {
        Look {
            celsius: Some(celsius),
            throttle: vec![],
        }
    }

    /// A rest of at most a second with these looks, the last of which stays.
    fn rested(looks: &[Look]) -> Option<Rest> {
        let mut left = looks.iter();
        let mut last = None;
        let look = || {
            last = left.next().cloned().or(last.take());
            last.clone()
        };
        rest(Some(40.0), Duration::from_secs(1), look, |_| true)
    }

    #[test]
    fn a_gpu_that_is_as_cool_as_before_waits_for_nothing() {
        assert_eq!(rested(&[at(40.0)]), None);
        assert_eq!(rested(&[at(45.0)]), None, "within a few degrees");
        assert_eq!(
            rested(&[Look::default()]),
            None,
            "an unknown temperature cannot be waited for"
        );
        assert_eq!(rested(&[]), None, "a GPU that cannot be asked");
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
            rest.detail.ends_with("not back within the limit"),
            "{}",
            rest.detail
        );
    }

    #[test]
    fn a_clock_that_is_held_back_is_waited_for_too() {
        let held = Look {
            throttle: vec!["hardware slowdown"],
            ..at(40.0)
        };
        assert_eq!(rested(&[held.clone(), at(40.0)]).unwrap().seconds, 0.25);
        let stays = rested(&[held]).unwrap().detail;
        assert!(
            stays.contains("clock held back: hardware slowdown: not back"),
            "{stays}"
        );
    }

    #[test]
    fn a_run_that_is_to_stop_rests_no_longer() {
        let rest = rest(Some(40.0), Duration::from_secs(9), || Some(at(70.0)), |_| false).unwrap();
        assert_eq!(rest.seconds, 0.0);
    }
}
