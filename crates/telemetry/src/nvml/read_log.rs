//! Log of quantities that could not be read, with reasons and times.

use std::collections::BTreeMap;

use mantissa_core::{Event, EventKind};
use nvml_wrapper::error::NvmlError;

use super::library::reason;

/// Log of failed readings of all quantities.
#[derive(Debug, Default)]
pub(super) struct ReadLog {
    quantities: BTreeMap<&'static str, Quantity>,
    /// Time in seconds at which the device was lost, and the error.
    lost: Option<(f64, String)>,
}

#[derive(Debug, Default)]
struct Quantity {
    /// True if the quantity was read at least once.
    seen: bool,
    /// Time in seconds and reason of the first failure. The first failure after a successful reading replaces an earlier
    /// one.
    failed: Option<(f64, String)>,
    /// Time in seconds at which the current series of failures began, if a reading was successful before it.
    failing: Option<f64>,
    /// Number of failures after the first successful reading.
    failures: usize,
    /// True if the device does not support the quantity, so it is not read again.
    unsupported: bool,
}

impl ReadLog {
    /// Returns true if the device was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Reads a quantity by calling `call`. Stores the reason of a failure.
    pub(super) fn read<T>(
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
    pub(super) fn note_absent(&mut self, what: &'static str, now: f64, reason: &str) {
        let quantity = self.quantities.entry(what).or_default();
        if !quantity.seen {
            quantity.failed.get_or_insert_with(|| (now, reason.into()));
        }
    }

    /// Records that a quantity is available.
    pub(super) fn note_available(&mut self, what: &'static str) {
        self.quantities.entry(what).or_default().seen = true;
    }

    /// Marks quantities as not available for a reason, so that they are not read.
    pub(super) fn disable(&mut self, quantities: &[&'static str], reason: &str) {
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
                // Discard a failure before the first successful reading.
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

    fn read(log: &mut ReadLog, now: f64) {
        assert_eq!(log.read(POWER, now, || Ok(1)), Some(1));
    }

    fn fail(log: &mut ReadLog, now: f64, error: NvmlError) {
        assert_eq!(log.read(POWER, now, || Err::<u32, _>(error)), None);
    }

    #[test]
    fn a_quantity_that_appears_later_is_not_missing() {
        let mut log = ReadLog::default();
        log.note_absent("process memory", 0.0, "not listed");
        assert_eq!(log.missing(), ["process memory: not listed"]);
        log.note_available("process memory");
        log.note_absent("process memory", 1.0, "not listed");
        assert!(log.missing().is_empty() && log.events().is_empty());
    }

    #[test]
    fn unsupported_quantities_are_read_once() {
        let mut log = ReadLog::default();
        fail(&mut log, 0.0, NvmlError::NotSupported);
        assert_eq!(
            log.read(POWER, 1.0, || -> Result<u32, _> { unreachable!() }),
            None
        );
        assert_eq!(
            log.missing(),
            ["power: the requested operation is not available on the target device"]
        );
        assert!(
            log.events().is_empty(),
            "a quantity that was never read has no event"
        );
    }

    #[test]
    fn a_persistent_failure_is_reported_with_its_start_time() {
        let mut log = ReadLog::default();
        read(&mut log, 1.0);
        fail(&mut log, 2.0, NvmlError::Unknown);
        fail(&mut log, 3.0, NvmlError::Timeout);
        assert_eq!(
            log.missing(),
            ["power: unavailable since 2.00 s: an internal driver error occurred"]
        );
        assert_eq!(
            log.events()[0].detail,
            "power could not be read from 2.00 s on: an internal driver error occurred"
        );
    }

    #[test]
    fn a_temporary_failure_is_an_event_and_not_missing() {
        let mut log = ReadLog::default();
        read(&mut log, 1.0);
        fail(&mut log, 2.0, NvmlError::Timeout);
        read(&mut log, 3.0);
        assert!(log.missing().is_empty());
        assert_eq!(
            log.events()[0].detail,
            "power could not be read 1 times, first after 2.00 s: the provided timeout was reached"
        );
    }

    #[test]
    fn a_lost_device_is_reported_once_and_not_read_again() {
        let mut log = ReadLog::default();
        read(&mut log, 1.0);
        fail(&mut log, 2.0, NvmlError::GpuLost);
        assert!(log.is_lost());
        assert_eq!(
            log.read("clock", 3.0, || -> Result<u32, _> { unreachable!() }),
            None
        );
        let kinds: Vec<EventKind> = log.events().into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::DeviceLost, EventKind::Telemetry]);
        assert!(log.missing()[0].starts_with("NVML: lost after 2.00 s: device fell off the bus"));
    }
}
