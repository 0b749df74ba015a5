//! What a sampler brought back, and what can be said from it.

use std::{collections::BTreeMap, ops::Range};

use mantissa_core::{Event, Series};

use crate::{Reading, throttle_reasons};

/// Readings kept for the series; beyond, every second one is dropped and the spacing doubles (5.5 minutes at full
/// rate). Peaks are taken from all readings.
const MAX_READINGS: usize = 1 << 14;

/// Shortest window for which energy is given. The power sensors of an A100 or H100 average over 25 to 100 ms (arXiv
/// 2312.02741): over 2 s the two edges of the window are worth at most a tenth.
pub const MIN_ENERGY_SECONDS: f64 = 2.0;

/// Least share of the window that readings must cover for an energy to be given.
const MIN_COVERAGE: f64 = 0.9;

/// Two readings further apart than this many of the trace's usual spacings leave a hole between them.
const HOLE_SPACINGS: f64 = 10.0;

/// The readings of a sampler.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    seconds: Vec<f64>,
    readings: Vec<Reading>,
    /// Only every so many-th reading is kept; a power of two.
    stride: usize,
    seen: usize,
    before_device_bytes: Option<u64>,
    device_peak: Option<u64>,
    process_peak: Option<u64>,
    host_peak: Option<u64>,
    host_peak_forgotten: bool,
    throttled: BTreeMap<&'static str, Throttled>,
    pub(crate) missing: Vec<String>,
}

#[derive(Debug, Clone)]
struct Throttled {
    first_seconds: f64,
    readings: usize,
}

/// Energy of a window, twice, each absent with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Energy {
    /// Difference of the device's counter, joules.
    pub counter_joules: Result<f64, String>,
    /// Trapezoid over sampled power, joules.
    pub integral_joules: Result<f64, String>,
    /// Share of the window that the power readings cover.
    pub coverage: f64,
}

impl Trace {
    pub(crate) fn push(&mut self, seconds: f64, reading: Reading) {
        if self.seen == 0 {
            self.stride = 1;
            self.before_device_bytes = reading.device_bytes;
        }
        self.device_peak = self.device_peak.max(reading.device_bytes);
        self.process_peak = self.process_peak.max(reading.process_bytes);
        self.host_peak = self
            .host_peak
            .max(reading.host_peak_bytes)
            .max(reading.host_bytes);
        for reason in throttle_reasons(reading.throttle.unwrap_or(0)) {
            let entry = self.throttled.entry(reason);
            entry
                .or_insert(Throttled {
                    first_seconds: seconds,
                    readings: 0,
                })
                .readings += 1;
        }
        if self.seen.is_multiple_of(self.stride) {
            self.seconds.push(seconds);
            self.readings.push(reading);
        }
        self.seen += 1;
        if self.readings.len() > MAX_READINGS {
            let mut index = 0..;
            self.seconds
                .retain(|_| index.next().is_some_and(|i: usize| i.is_multiple_of(2)));
            let mut index = 0..;
            self.readings
                .retain(|_| index.next().is_some_and(|i: usize| i.is_multiple_of(2)));
            self.stride *= 2;
        }
    }

    /// What was the peak of host memory so far counts no longer.
    pub(crate) fn forget_host_peak(&mut self) {
        self.host_peak = None;
        self.host_peak_forgotten = true;
    }

    /// Sampled quantities over seconds since the start; one that was never read is left out.
    pub fn series(&self) -> Vec<Series> {
        type Get = fn(&Reading) -> Option<f64>;
        let quantities: [(&str, &str, Get); 7] = [
            ("host_bytes", "B", |reading| {
                reading.host_bytes.map(|bytes| bytes as f64)
            }),
            ("device_bytes", "B", |reading| {
                reading.device_bytes.map(|bytes| bytes as f64)
            }),
            ("process_bytes", "B", |reading| {
                reading.process_bytes.map(|bytes| bytes as f64)
            }),
            ("power_watts", "W", |reading| reading.power_watts),
            ("sm_clock_hz", "Hz", |reading| reading.sm_clock_hz),
            ("temperature_celsius", "°C", |reading| {
                reading.temperature_celsius
            }),
            ("throttle_reasons", "bits", |reading| {
                reading.throttle.map(|bits| bits as f64)
            }),
        ];
        let series = quantities.map(|(name, unit, get)| Series {
            x: self.seconds.clone(),
            y: self.readings.iter().map(get).collect(),
            ..Series::new(name, unit, "seconds")
        });
        series
            .into_iter()
            .filter(|series| series.values().next().is_some())
            .collect()
    }

    /// High-water mark of this process in host memory, bytes.
    pub fn host_peak_bytes(&self) -> Option<u64> {
        self.host_peak
    }

    /// What [`Trace::host_peak_bytes`] is the peak of.
    pub fn host_peak_method(&self) -> &'static str {
        if self.host_peak_forgotten {
            "high-water mark after loading"
        } else {
            "high-water mark"
        }
    }

    /// Most device memory in use, minus what was there at the first reading, bytes.
    pub fn device_peak_bytes(&self) -> Option<u64> {
        Some(self.device_peak?.saturating_sub(self.before_device_bytes?))
    }

    /// Most device memory of this process, bytes.
    pub fn process_peak_bytes(&self) -> Option<u64> {
        self.process_peak
    }

    /// What could not be read, each with its reason.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Energy between two moments, in seconds since the start.
    pub fn energy(&self, window: Range<f64>) -> Energy {
        let power = self.covered(&window, |reading| reading.power_watts);
        let counter = self.covered(&window, |reading| reading.energy_joules);
        let length = window.end - window.start;
        let share = |pieces: &[Piece]| pieces.iter().map(|piece| piece.seconds).sum::<f64>() / length;
        let sum = |pieces: Option<Vec<Piece>>, what: &str, joules: fn(&Piece) -> f64| match pieces {
            None => Err(format!("the device does not tell its {what}")),
            Some(_) if length < MIN_ENERGY_SECONDS => Err(format!(
                "{length:.2} s are too short for the sensor: it takes {MIN_ENERGY_SECONDS} s"
            )),
            Some(pieces) if share(&pieces) < MIN_COVERAGE => Err(format!(
                "readings cover {:.0} % of the time",
                100.0 * share(&pieces)
            )),
            Some(pieces) => Ok(pieces.iter().map(joules).sum()),
        };
        Energy {
            coverage: power.as_deref().filter(|_| length > 0.0).map_or(0.0, share),
            counter_joules: sum(counter, "energy counter", |piece| piece.to - piece.from),
            integral_joules: sum(power, "power", |piece| {
                piece.seconds * (piece.from + piece.to) / 2.0
            }),
        }
    }

    /// Pairs of neighbouring readings inside the window without a hole between them; absent if the quantity was
    /// never read at all.
    fn covered(&self, window: &Range<f64>, get: fn(&Reading) -> Option<f64>) -> Option<Vec<Piece>> {
        self.readings.iter().find_map(get)?;
        let spacings = self.seconds.windows(2).map(|pair| pair[1] - pair[0]);
        let usual = spacings.sum::<f64>() / self.seconds.len().saturating_sub(1).max(1) as f64;
        let inside = self.seconds.iter().zip(&self.readings);
        let known: Vec<(f64, f64)> = inside
            .filter(|(seconds, _)| **seconds >= window.start && **seconds <= window.end)
            .filter_map(|(seconds, reading)| get(reading).map(|value| (*seconds, value)))
            .collect();
        let pieces = known
            .windows(2)
            .map(|pair| Piece {
                seconds: pair[1].0 - pair[0].0,
                from: pair[0].1,
                to: pair[1].1,
            })
            .filter(|piece| piece.seconds <= HOLE_SPACINGS * usual);
        Some(pieces.collect())
    }

    /// One event for each reason for which the clock was held back.
    pub fn throttle_events(&self) -> Vec<Event> {
        let event = |(reason, throttled): (&&str, &Throttled)| Event {
            kind: "throttled".into(),
            step: None,
            value: Some(throttled.readings as f64 / self.seen as f64),
            detail: format!(
                "{reason} in {} of {} readings, first after {:.1} s",
                throttled.readings, self.seen, throttled.first_seconds
            ),
        };
        self.throttled.iter().map(event).collect()
    }
}

/// The stretch between two readings.
struct Piece {
    seconds: f64,
    from: f64,
    to: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A constant 100 W for `seconds`, ten readings a second, with its counter.
    fn steady(seconds: u32) -> Trace {
        let mut trace = Trace::default();
        for index in 0..=seconds * 10 {
            let at = f64::from(index) / 10.0;
            let energy = Some(5000.0 + 100.0 * at);
            trace.push(
                at,
                Reading {
                    power_watts: Some(100.0),
                    energy_joules: energy,
                    ..Reading::default()
                },
            );
        }
        trace
    }

    #[test]
    fn steady_power_gives_watts_times_seconds_by_both_ways() {
        let energy = steady(10).energy(2.0..7.0);
        assert!((energy.integral_joules.unwrap() - 500.0).abs() < 1e-9);
        assert!((energy.counter_joules.unwrap() - 500.0).abs() < 1e-9);
        assert!((energy.coverage - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_rising_power_is_integrated_as_a_trapezoid() {
        let mut trace = Trace::default();
        for index in 0..=4 {
            let at = f64::from(index);
            trace.push(
                at,
                Reading {
                    power_watts: Some(10.0 * at),
                    ..Reading::default()
                },
            );
        }
        assert_eq!(trace.energy(0.0..4.0).integral_joules, Ok(80.0));
    }

    #[test]
    fn a_window_too_short_for_the_sensor_says_so_instead_of_a_number() {
        let energy = steady(10).energy(2.0..3.0);
        assert!(energy.integral_joules.unwrap_err().contains("too short"));
        assert!(energy.counter_joules.unwrap_err().contains("too short"));
    }

    #[test]
    fn a_window_half_without_readings_gives_no_energy() {
        let energy = steady(10).energy(5.0..15.0);
        assert!(energy.integral_joules.unwrap_err().contains("50 %"));
        assert!((energy.coverage - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_a_sensor_there_is_a_reason_and_no_number() {
        let mut trace = Trace::default();
        trace.push(0.0, Reading::default());
        trace.push(9.0, Reading::default());
        let energy = trace.energy(0.0..9.0);
        assert_eq!(
            energy.integral_joules,
            Err("the device does not tell its power".into())
        );
        assert_eq!(energy.coverage, 0.0);
        assert!(trace.series().is_empty());
    }

    #[test]
    fn device_memory_is_counted_from_what_was_there_before() {
        let mut trace = Trace::default();
        for bytes in [1000, 5000, 2000] {
            trace.push(
                0.0,
                Reading {
                    device_bytes: Some(bytes),
                    ..Reading::default()
                },
            );
        }
        assert_eq!(trace.device_peak_bytes(), Some(4000));
        assert_eq!(trace.process_peak_bytes(), None);
    }

    #[test]
    fn a_long_trace_is_thinned_and_keeps_its_peak() {
        let mut trace = Trace::default();
        for index in 0..MAX_READINGS * 3 {
            let spike = if index == 12_345 { 777 } else { 1 };
            trace.push(
                index as f64,
                Reading {
                    process_bytes: Some(spike),
                    ..Reading::default()
                },
            );
        }
        let series = &trace.series()[0];
        assert!(series.y.len() <= MAX_READINGS + 1);
        assert_eq!(series.x[1] - series.x[0], 4.0);
        assert_eq!(series.x[series.x.len() - 1] - series.x[series.x.len() - 2], 4.0);
        assert_eq!(trace.process_peak_bytes(), Some(777));
    }

    #[test]
    fn throttling_is_one_event_a_reason_with_its_share() {
        const POWER_CAP: u64 = 0x4;
        let mut trace = Trace::default();
        for (at, bits) in [(0.0, 0), (1.0, POWER_CAP), (2.0, POWER_CAP), (3.0, 0)] {
            trace.push(
                at,
                Reading {
                    throttle: Some(bits),
                    ..Reading::default()
                },
            );
        }
        let events = trace.throttle_events();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].value, Some(0.5));
        assert_eq!(
            events[0].detail,
            "software power cap in 2 of 4 readings, first after 1.0 s"
        );
    }
}
