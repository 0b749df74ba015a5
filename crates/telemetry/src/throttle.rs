//! Throttling of the clock: reasons and times.

use std::{collections::BTreeMap, ops::Range};

use mantissa_core::{Event, EventKind};
use nvml_wrapper::bitmasks::device::ThrottleReasons;

use crate::spans::Spans;

/// Reasons for throttling that distort measured times.
const HARMFUL: [(ThrottleReasons, &str); 5] = [
    (ThrottleReasons::SW_POWER_CAP, "software power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "software thermal slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hardware thermal slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hardware power brake"),
];

/// Settings of the user that fix the clock. NVML also has a bit for an idle device, which is not listed here because
/// the clock rises with the load.
const FIXED_CLOCKS: [(ThrottleReasons, &str); 3] = [
    (
        ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
        "application clocks setting",
    ),
    (ThrottleReasons::SYNC_BOOST, "sync boost"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clock setting"),
];

/// Returns the reasons for throttling from the bits of NVML: heat, power and hardware protection. An idle device and
/// [`clock_settings`] do not count as throttling.
pub fn throttle_reasons(bits: u64) -> Vec<&'static str> {
    names_of(&HARMFUL, bits)
}

/// Returns the settings of the user that fix the clock, from the bits of NVML.
pub fn clock_settings(bits: u64) -> Vec<&'static str> {
    names_of(&FIXED_CLOCKS, bits)
}

/// Returns the names of the bits that are set.
fn names_of(names: &[(ThrottleReasons, &'static str)], bits: u64) -> Vec<&'static str> {
    let set = names.iter().filter(|(bit, _)| bits & bit.bits() != 0);
    set.map(|(_, name)| *name).collect()
}

/// Throttling of the clock in an interval of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Throttling {
    /// Not throttled, according to readings in the whole interval and on both sides of it.
    No,
    /// Not known, because readings are missing in part of the interval.
    Unknown,
    /// Possibly throttled in part of the interval, for these reasons.
    Yes(Vec<&'static str>),
}

/// Interval of time in which the clock was throttled.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttled {
    /// Reason for the throttling.
    pub reason: &'static str,
    /// Interval from the last reading without this reason to the next reading without it, in seconds since the start.
    pub window: Range<f64>,
}

/// Log of the throttle reasons of all readings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    reasons: BTreeMap<&'static str, Reason>,
    /// Intervals in which the reasons are known.
    known: Spans,
    last: Option<(f64, u64)>,
    readings: usize,
}

#[derive(Debug, Clone)]
struct Reason {
    kind: EventKind,
    spans: Spans,
    readings: usize,
    first_seconds: f64,
}

impl Log {
    /// Adds a reading, which is valid for `reach` seconds before and after it. At times without a valid reading, throttling is unknown.
    pub(crate) fn push(&mut self, seconds: f64, bits: Option<u64>, reach: f64) {
        self.readings += 1;
        let Some(bits) = bits else {
            self.last = None;
            return;
        };
        self.known.add(seconds - reach, seconds + reach);
        let last = self.last.filter(|(then, _)| seconds - then <= 2.0 * reach);
        let before = last.map_or(seconds - reach, |(then, _)| then);
        for (kind, names) in [
            (EventKind::Throttled, &HARMFUL[..]),
            (EventKind::ClocksHeld, &FIXED_CLOCKS),
        ] {
            for name in names_of(names, bits) {
                let reason = self.reasons.entry(name).or_insert_with(|| Reason {
                    kind,
                    spans: Spans::default(),
                    readings: 0,
                    first_seconds: seconds,
                });
                reason.readings += 1;
                reason.spans.add(before, seconds);
            }
            for name in names_of(names, last.map_or(0, |(_, bits)| bits) & !bits) {
                if let Some(reason) = self.reasons.get_mut(name) {
                    reason.spans.add(before, seconds);
                }
            }
        }
        self.last = Some((seconds, bits));
    }

    /// Returns true if the last reading contains a reason for throttling, regardless of the age of the reading.
    pub(crate) fn is_throttled(&self) -> bool {
        self.last
            .is_some_and(|(_, bits)| !throttle_reasons(bits).is_empty())
    }

    pub(crate) fn throttled(&self, window: &Range<f64>) -> Throttling {
        let overlapping = self.harmful().filter(|(_, reason)| reason.spans.overlap(window));
        let reasons: Vec<&'static str> = overlapping.map(|(name, _)| *name).collect();
        match (reasons.is_empty(), self.known.contain(window)) {
            (false, _) => Throttling::Yes(reasons),
            (true, true) => Throttling::No,
            (true, false) => Throttling::Unknown,
        }
    }

    pub(crate) fn intervals(&self) -> Vec<Throttled> {
        let intervals = self.harmful().flat_map(|(name, reason)| {
            reason.spans.iter().map(|span| Throttled {
                reason: name,
                window: span.clone(),
            })
        });
        let mut intervals: Vec<Throttled> = intervals.collect();
        intervals.sort_by(|a, b| a.window.start.total_cmp(&b.window.start));
        intervals
    }

    /// Returns one event for each reason, with the share of the readings that contain it and the time of the first of them.
    pub(crate) fn events(&self) -> Vec<Event> {
        let event = |(name, reason): (&&str, &Reason)| Event {
            kind: reason.kind,
            step: None,
            value: Some(reason.readings as f64 / self.readings as f64),
            detail: format!(
                "{name} in {} of {} readings, first after {:.1} s",
                reason.readings, self.readings, reason.first_seconds
            ),
        };
        self.reasons.iter().map(event).collect()
    }

    fn harmful(&self) -> impl Iterator<Item = (&&'static str, &Reason)> {
        self.reasons
            .iter()
            .filter(|(_, reason)| reason.kind == EventKind::Throttled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWER_CAP: u64 = ThrottleReasons::SW_POWER_CAP.bits();
    const HEAT: u64 = ThrottleReasons::HW_THERMAL_SLOWDOWN.bits();

    /// Creates a log with one reading per second.
    fn log(bits: &[Option<u64>]) -> Log {
        let mut log = Log::default();
        for (second, bits) in bits.iter().enumerate() {
            log.push(second as f64, *bits, 1.0);
        }
        log
    }

    #[test]
    fn the_last_reading_counts_regardless_of_its_age() {
        let mut log = Log::default();
        assert!(!log.is_throttled());
        log.push(0.0, Some(ThrottleReasons::HW_THERMAL_SLOWDOWN.bits()), 0.02);
        assert!(log.is_throttled());
        log.push(9.0, Some(ThrottleReasons::GPU_IDLE.bits()), 0.02);
        assert!(!log.is_throttled());
    }

    #[test]
    fn idle_and_fixed_clocks_are_not_throttling() {
        let idle = ThrottleReasons::GPU_IDLE
            | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING
            | ThrottleReasons::SYNC_BOOST
            | ThrottleReasons::DISPLAY_CLOCK_SETTING;
        assert!(throttle_reasons(idle.bits()).is_empty());
        assert_eq!(clock_settings(idle.bits()).len(), 3);
        assert_eq!(
            throttle_reasons(POWER_CAP | HEAT),
            ["software power cap", "hardware thermal slowdown"]
        );
    }

    #[test]
    fn an_interval_extends_to_the_unthrottled_readings() {
        let log = log(&[
            Some(0),
            Some(0),
            Some(POWER_CAP),
            Some(POWER_CAP),
            Some(0),
            Some(0),
        ]);
        let interval = Throttled {
            reason: "software power cap",
            window: 1.0..4.0,
        };
        assert_eq!(log.intervals(), [interval]);
        assert_eq!(log.throttled(&(0.2..0.8)), Throttling::No);
        let yes = Throttling::Yes(vec!["software power cap"]);
        assert_eq!(log.throttled(&(0.5..1.2)), yes);
        assert_eq!(log.throttled(&(3.5..3.6)), yes, "between two readings");
        assert_eq!(log.throttled(&(4.1..4.9)), Throttling::No);
    }

    #[test]
    fn overlapping_reasons_have_separate_intervals() {
        let log = log(&[
            Some(0),
            Some(POWER_CAP),
            Some(POWER_CAP | HEAT),
            Some(HEAT),
            Some(0),
        ]);
        let windows: Vec<_> = log.intervals().into_iter().map(|one| one.window).collect();
        assert_eq!(windows, [0.0..3.0, 1.0..4.0]);
        let both = Throttling::Yes(vec!["hardware thermal slowdown", "software power cap"]);
        assert_eq!(log.throttled(&(2.0..2.5)), both);
    }

    #[test]
    fn time_without_readings_is_unknown() {
        let log = log(&[Some(0), Some(0), None, None, None, None, Some(0)]);
        assert_eq!(log.throttled(&(0.0..1.5)), Throttling::No);
        assert_eq!(log.throttled(&(3.0..3.5)), Throttling::Unknown);
        assert_eq!(log.throttled(&(1.5..5.5)), Throttling::Unknown);
        assert_eq!(Log::default().throttled(&(0.0..1.0)), Throttling::Unknown);
    }

    #[test]
    fn a_clock_setting_is_an_event_and_not_throttling() {
        let setting = ThrottleReasons::APPLICATIONS_CLOCKS_SETTING.bits();
        let log = log(&[Some(setting), Some(setting)]);
        assert_eq!(log.throttled(&(0.0..1.0)), Throttling::No);
        let events = log.events();
        assert_eq!((events.len(), events[0].kind), (1, EventKind::ClocksHeld));
    }

    #[test]
    fn each_throttle_reason_is_one_event_with_its_share() {
        let events = log(&[Some(0), Some(POWER_CAP), Some(POWER_CAP), Some(0)]).events();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].value, Some(0.5));
        assert_eq!(
            events[0].detail,
            "software power cap in 2 of 4 readings, first after 1.0 s"
        );
    }
}
