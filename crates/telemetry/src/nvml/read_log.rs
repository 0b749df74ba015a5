//! Log of quantities that could not be read, with reasons and times.

use std::collections::BTreeMap;

use mantissa_core::{Event, EventKind};
use nvml_wrapper::error::NvmlError;

use super::library::reason;

/// Log of failed readings of all quantities.
#[derive(Debug, Default)]
pub(super) struct Notes {
    quantities: BTreeMap<&'static str, Quantity>,
    /// Time in seconds at which the device was lost, and the error.
    lost: Option<(f64, String)>,
}

#[derive(Debug, Default)]
struct Quantity {
    /// True if the quantity was read at least once.
    seen: bool,
    /// Time in seconds and reason of the first failure.
    failed: Option<(f64, String)>,
    /// Time in seconds since which every reading failed.
    failing: Option<f64>,
    /// Number of failures after the first successful reading.
    failures: usize,
    /// True if the quantity can never be read, so further calls would only take time.
    unsupported: bool,
}

impl Notes {
    /// Returns true if the device was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Reads a quantity, and keeps the reason of a failure.
    pub(super) fn ask<T>(
        &mut self,
        what: &'static str,
        now: f64,
        call: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        let quantity = self.quantities.entry(what).or_default();
        if quantity.unsupported || self.lost.is_some() {
            return None;
        }
        match call() {
            Ok(value) => {
                quantity.seen = true;
                quantity.failing = None;
                Some(value)
            }
            Err(error) => {
                if matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired) {
                    self.lost = Some((now, reason(&error)));
                }
                quantity.unsupported = !quantity.seen
                    && matches!(error, NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_));
                quantity.fail(now, reason(&error));
                None
            }
        }
    }

    /// Records that a quantity is not available yet, which is not a failure.
    pub(super) fn absent(&mut self, what: &'static str, now: f64, reason: &str) {
        let quantity = self.quantities.entry(what).or_default();
        if !quantity.seen {
            quantity.failed.get_or_insert_with(|| (now, reason.into()));
        }
    }

    /// Records that a quantity is available.
    pub(super) fn there(&mut self, what: &'static str) {
        self.quantities.entry(what).or_default().seen = true;
    }

    /// Disables quantities for a reason.
    pub(super) fn refuse(&mut self, quantities: &[&'static str], reason: &str) {
        for what in quantities {
            let quantity = self.quantities.entry(what).or_default();
            quantity.unsupported = true;
            quantity.failed = Some((0.0, reason.into()));
        }
    }

    /// Returns the quantities that were never read and those that can no longer be read, each with its reason.
    pub(super) fn missing(&self) -> Vec<String> {
        let lost = self.lost.iter();
        let lost = lost.map(|(seconds, reason)| format!("NVML: lost after {seconds:.2} s: {reason}"));
        let quantities = self.quantities.iter().filter_map(|(what, quantity)| {
            let (_, reason) = quantity.failed.as_ref()?;
            match (quantity.seen, quantity.failing) {
                (false, _) => Some(format!("{what}: {reason}")),
                (true, Some(since)) => Some(format!("{what}: unavailable since {since:.2} s: {reason}")),
                (true, None) => None,
            }
        });
        lost.chain(quantities).collect()
    }

    /// Returns events for quantities that failed after a successful reading, and for the loss of the device.
    pub(super) fn events(&self) -> Vec<Event> {
        let event = |kind, value: f64, detail: String| Event {
            kind,
            step: None,
            value: Some(value),
            detail,
        };
        let lost = self.lost.iter().map(|(seconds, reason)| {
            event(
                EventKind::DeviceLost,
                *seconds,
                format!("after {seconds:.2} s of telemetry: {reason}"),
            )
        });
        let broken = self.quantities.iter().filter_map(|(what, quantity)| {
            let (first, reason) = quantity.failed.as_ref().filter(|_| quantity.failures > 0)?;
            let detail = match quantity.failing {
                Some(since) if since == *first => {
                    format!("{what} could not be read from {since:.2} s on: {reason}")
                }
                _ => format!(
                    "{what} could not be read {} times, first after {first:.2} s: {reason}",
                    quantity.failures
                ),
            };
            Some(event(EventKind::Telemetry, *first, detail))
        });
        lost.chain(broken).collect()
    }
}

impl Quantity {
    fn fail(&mut self, now: f64, reason: String) {
        if self.seen {
            if self.failures == 0 {
                // A failure before the first successful reading no longer counts.
                self.failed = None;
            }
            self.failures += 1;
            self.failing.get_or_insert(now);
        }
        self.failed.get_or_insert((now, reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWER: &str = "power";

    fn read(notes: &mut Notes, now: f64) {
        assert_eq!(notes.ask(POWER, now, || Ok(1)), Some(1));
    }

    fn fail(notes: &mut Notes, now: f64, error: NvmlError) {
        assert_eq!(notes.ask(POWER, now, || Err::<u32, _>(error)), None);
    }

    #[test]
    fn a_quantity_that_comes_late_is_not_missing() {
        let mut notes = Notes::default();
        notes.absent("process memory", 0.0, "not listed");
        assert_eq!(notes.missing(), ["process memory: not listed"]);
        notes.there("process memory");
        notes.absent("process memory", 1.0, "not listed");
        assert!(notes.missing().is_empty() && notes.events().is_empty());
    }

    #[test]
    fn what_the_device_does_not_support_is_asked_for_once() {
        let mut notes = Notes::default();
        fail(&mut notes, 0.0, NvmlError::NotSupported);
        assert_eq!(
            notes.ask(POWER, 1.0, || -> Result<u32, _> { unreachable!() }),
            None
        );
        assert_eq!(
            notes.missing(),
            ["power: the requested operation is not available on the target device"]
        );
        assert!(
            notes.events().is_empty(),
            "a quantity that was never read has no event"
        );
    }

    #[test]
    fn what_starts_failing_is_named_with_the_time_it_began() {
        let mut notes = Notes::default();
        read(&mut notes, 1.0);
        fail(&mut notes, 2.0, NvmlError::Unknown);
        fail(&mut notes, 3.0, NvmlError::Timeout);
        assert_eq!(
            notes.missing(),
            ["power: unavailable since 2.00 s: an internal driver error occurred"]
        );
        assert_eq!(
            notes.events()[0].detail,
            "power could not be read from 2.00 s on: an internal driver error occurred"
        );
    }

    #[test]
    fn what_comes_back_is_an_event_and_not_missing() {
        let mut notes = Notes::default();
        read(&mut notes, 1.0);
        fail(&mut notes, 2.0, NvmlError::Timeout);
        read(&mut notes, 3.0);
        assert!(notes.missing().is_empty());
        assert_eq!(
            notes.events()[0].detail,
            "power could not be read 1 times, first after 2.00 s: the provided timeout was reached"
        );
    }

    #[test]
    fn a_lost_device_is_one_event_and_is_not_asked_again() {
        let mut notes = Notes::default();
        read(&mut notes, 1.0);
        fail(&mut notes, 2.0, NvmlError::GpuLost);
        assert!(notes.is_lost());
        assert_eq!(
            notes.ask("clock", 3.0, || -> Result<u32, _> { unreachable!() }),
            None
        );
        let kinds: Vec<EventKind> = notes.events().into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::DeviceLost, EventKind::Telemetry]);
        assert!(notes.missing()[0].starts_with("NVML: lost after 2.00 s: device fell off the bus"));
    }
}
