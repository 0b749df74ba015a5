//! Trace of a sampler, and values computed from it.

use std::ops::Range;

use mantissa_core::{Event, EventKind, Series, SeriesName};

use crate::{
    Energy, OtherProcesses, PERIOD, Rate, Reading, Throttled, Throttling, decimated::Decimated, energy,
    other_processes, rate, throttle,
};

/// Maximum time between two readings, in periods, over which power is interpolated linearly. In a longer gap, the power
/// is unknown. Ten periods of 10 ms equal the longest refresh interval of the sensors (100 ms, arXiv 2312.02741).
const MAX_GAP_PERIODS: f64 = 10.0;

/// Number of periods before and after a reading during which its throttle reasons are valid.
const REACH_PERIODS: f64 = 2.0;

/// Times in series are rounded to 0.1 ms, about the duration of a reading on a GPU. Most rounded times are multiples of
/// the period, so they compress well.
const SERIES_TICKS: f64 = 1e4;

/// Durations of readings in series are rounded to a microsecond.
const DURATION_TICKS: f64 = 1e6;

/// Quantity with a series: its name, true if brief readings leave it out, and the function that returns its value.
type Quantity = (SeriesName, bool, fn(&Reading) -> Option<f64>);

const QUANTITIES: [Quantity; 12] = [
    (SeriesName::HostBytes, true, |reading| bytes(reading.host_bytes)),
    (SeriesName::DeviceBytes, false, |reading| {
        bytes(reading.device_bytes)
    }),
    (SeriesName::ProcessBytes, true, |reading| {
        bytes(reading.process_bytes)
    }),
    (SeriesName::PowerWatts, false, |reading| reading.power_watts),
    (SeriesName::EnergyJoules, false, |reading| reading.energy_joules),
    (SeriesName::SmClockHz, false, |reading| reading.sm_clock_hz),
    (SeriesName::MemoryClockHz, false, |reading| {
        reading.memory_clock_hz
    }),
    (SeriesName::TemperatureCelsius, false, |reading| {
        reading.temperature_celsius
    }),
    (SeriesName::ThrottleReasons, false, |reading| {
        bytes(reading.throttle)
    }),
    (SeriesName::Utilisation, true, |reading| reading.utilisation),
    (SeriesName::EccUncorrected, true, |reading| {
        bytes(reading.ecc_uncorrected)
    }),
    (SeriesName::Processes, true, |reading| {
        reading.processes.as_ref().map(|list| list.len() as f64)
    }),
];

fn bytes(whole: Option<u64>) -> Option<f64> {
    whole.map(|whole| whole as f64)
}

/// Readings of a sampler.
#[derive(Debug, Clone)]
pub struct Trace {
    period: f64,
    columns: [Decimated<(f64, Option<f64>)>; QUANTITIES.len()],
    rate: rate::Log,
    energy: energy::Meter,
    throttle: throttle::Log,
    other_processes: other_processes::Log,
    max_utilisation: Option<f64>,
    /// Number of readings.
    readings: usize,
    baseline_device_bytes: Option<u64>,
    device: Peak,
    process: Peak,
    host_peak: Option<u64>,
    host_peak_was_reset: bool,
    ecc: Option<(u64, u64)>,
    pub(crate) missing: Vec<String>,
    pub(crate) events: Vec<Event>,
}

/// Peak memory of each kind; see [`Trace::host_peak_bytes`], [`Trace::device_peak_bytes`] and
/// [`Trace::process_peak_bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peaks {
    /// Host memory of the measured process in bytes.
    pub host: Option<u64>,
    /// Device memory in bytes.
    pub device: Option<u64>,
    /// Device memory of the measured process in bytes.
    pub process: Option<u64>,
}

/// Maximum of a quantity. The maximum is unknown if the last reading failed, because the quantity may have increased
/// since.
#[derive(Debug, Clone, Default)]
struct Peak {
    max: Option<u64>,
    /// True if the last reading failed.
    lost: bool,
}

impl Peak {
    fn push(&mut self, value: Option<u64>) {
        self.lost = self.max.is_some() && value.is_none();
        self.max = self.max.max(value);
    }

    fn value(&self) -> Option<u64> {
        self.max.filter(|_| !self.lost)
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new(PERIOD.as_secs_f64())
    }
}

impl Trace {
    /// Creates an empty trace for a sampler that takes a reading every `period` seconds.
    pub fn new(period: f64) -> Self {
        Self {
            period,
            columns: Default::default(),
            rate: rate::Log::default(),
            energy: energy::Meter::default(),
            throttle: throttle::Log::default(),
            other_processes: other_processes::Log::default(),
            max_utilisation: None,
            readings: 0,
            baseline_device_bytes: None,
            device: Peak::default(),
            process: Peak::default(),
            host_peak: None,
            host_peak_was_reset: false,
            ecc: None,
            missing: vec![],
            events: vec![],
        }
    }

    /// Appends a reading. Readings must be in chronological order.
    pub fn push(&mut self, reading: Reading) {
        let seconds = reading.seconds;
        if self.readings == 0 {
            self.baseline_device_bytes = reading.device_bytes;
        }
        self.readings += 1;
        self.device.push(reading.device_bytes);
        if !reading.brief && (reading.processes.is_none() || reading.process_bytes.is_some()) {
            // A list without the measured process is not a failed reading: the process may use the device only later, or only earlier.
            self.process.push(reading.process_bytes);
        }
        self.host_peak = self
            .host_peak
            .max(reading.host_peak_bytes)
            .max(reading.host_bytes);
        self.rate
            .push(seconds, reading.late_seconds, reading.taken_seconds, self.period);
        if let Some(averaged) = reading.power_averaged_seconds {
            self.energy.add_averaging_time(averaged);
        }
        self.energy.push(
            seconds,
            reading.power_watts,
            reading.energy_joules,
            MAX_GAP_PERIODS * self.period,
        );
        self.throttle
            .push(seconds, reading.throttle, REACH_PERIODS * self.period);
        if let Some(share) = reading.utilisation {
            self.max_utilisation = Some(self.max_utilisation.map_or(share, |max| max.max(share)));
        }
        if let Some(processes) = &reading.processes {
            self.other_processes.push(seconds, processes);
        }
        if let Some(errors) = reading.ecc_uncorrected {
            self.ecc = Some((self.ecc.map_or(errors, |(first, _)| first), errors));
        }
        for (column, (_, slow, get)) in self.columns.iter_mut().zip(QUANTITIES) {
            let value = get(&reading);
            // Leading absent values are not stored.
            let begun = value.is_some() || !column.evenly_spaced().is_empty();
            if begun && !(slow && reading.brief) {
                column.push((seconds, value));
            }
        }
    }

    /// Discards the peak of host memory up to now.
    pub(crate) fn reset_host_peak(&mut self) {
        self.host_peak = None;
        self.host_peak_was_reset = true;
    }

    /// Discards the baseline of device memory, because the first reading came too late.
    pub(crate) fn discard_baseline(&mut self) {
        self.baseline_device_bytes = None;
        self.readings = self.readings.max(1);
    }

    /// Returns the sampled quantities over seconds since the start, each from its first value on. Quantities that were
    /// never read are left out, and long series are thinned.
    pub fn series(&self) -> Vec<Series> {
        let quantities = QUANTITIES.iter().zip(&self.columns);
        let sampled = quantities.map(|((name, ..), column)| (*name, column.evenly_spaced().to_vec()));
        let round = |(seconds, taken): (f64, Option<f64>)| {
            (seconds, taken.map(|taken| round_to(taken, DURATION_TICKS)))
        };
        let taken = (
            SeriesName::ReadingSeconds,
            self.rate.durations().map(round).collect(),
        );
        sampled
            .chain([taken])
            .filter(|(_, points): &(_, Vec<_>)| points.iter().any(|(_, value)| value.is_some()))
            .map(|(name, points)| {
                let (x, y): (Vec<f64>, Vec<Option<f64>>) = points.into_iter().unzip();
                let x = x
                    .into_iter()
                    .map(|seconds| round_to(seconds, SERIES_TICKS))
                    .collect();
                Series {
                    x,
                    y,
                    ..Series::new(name)
                }
            })
            .collect()
    }

    /// Returns the peak host memory of the measured process in bytes.
    pub fn host_peak_bytes(&self) -> Option<u64> {
        self.host_peak
    }

    /// Returns the method with which [`Trace::host_peak_bytes`] was measured.
    pub fn host_peak_method(&self) -> &'static str {
        if self.host_peak_was_reset {
            "high-water mark after loading"
        } else {
            "high-water mark"
        }
    }

    /// Returns the peak device memory in use minus the baseline at the first reading, in bytes; `None` if the
    /// memory could no longer be read at the end.
    pub fn device_peak_bytes(&self) -> Option<u64> {
        Some(self.device.value()?.saturating_sub(self.baseline_device_bytes?))
    }

    /// Returns the peak device memory of the measured process in bytes; `None` if this memory could no longer be read at the end.
    pub fn process_peak_bytes(&self) -> Option<u64> {
        self.process.value()
    }

    /// Returns the peaks of all three kinds of memory.
    pub fn peaks(&self) -> Peaks {
        Peaks {
            host: self.host_peak_bytes(),
            device: self.device_peak_bytes(),
            process: self.process_peak_bytes(),
        }
    }

    /// Returns the quantities that could not be read, each with a reason. If a quantity could be read at first, the text
    /// contains the time of the first failure.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns the energy in a window, in seconds since the start.
    pub fn energy(&self, window: Range<f64>) -> Energy {
        self.energy.energy(&window)
    }

    /// Returns the mean power in a window, in watts. For a window before the work, it is the idle power of the device.
    ///
    /// # Errors
    /// The device does not report its power, the window is shorter than [`crate::MIN_ENERGY_SECONDS`], readings are
    /// missing, or the two halves of the window differ by more than 5 %.
    pub fn steady_power(&self, window: Range<f64>) -> Result<f64, String> {
        self.energy.steady_power(&window)
    }

    /// Returns the accuracy and the cost of the sampling in a window.
    pub fn rate(&self, window: Range<f64>) -> Rate {
        self.rate.rate(&window, self.period)
    }

    /// Returns true if the last reading contains a reason for throttling.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttle.is_throttled()
    }

    /// Returns the throttling of the clock in an interval, in seconds since the start.
    pub fn throttled(&self, from: f64, to: f64) -> Throttling {
        self.throttle.throttled(&(from..to))
    }

    /// Returns the intervals in which the clock was throttled, separately for each reason, in order of their start.
    pub fn throttle_intervals(&self) -> Vec<Throttled> {
        self.throttle.intervals()
    }

    /// Returns true if the driver ever listed a process that is not marked as own. If this process does not compute on
    /// the device, any such process belongs to another program.
    pub fn other_processes_listed(&self) -> bool {
        self.other_processes.lists_others()
    }

    /// Returns the maximum utilisation (share of the time in which a kernel ran) of all readings; `None` if the device
    /// does not report it.
    pub fn max_utilisation(&self) -> Option<f64> {
        self.max_utilisation
    }

    /// Returns the other processes on the device.
    pub fn other_processes(&self) -> OtherProcesses {
        self.other_processes.result()
    }

    /// Returns one event for each reason why the clock was limited: a reason for throttling or a setting of the user.
    pub fn throttle_events(&self) -> Vec<Event> {
        self.throttle.events()
    }

    /// Returns all events for the record: throttling, other processes on the device, memory errors, quantities that
    /// could no longer be read, and loss of the device.
    pub fn events(&self) -> Vec<Event> {
        let mut events = self.throttle.events();
        events.extend(self.other_processes.events());
        events.extend(
            self.ecc
                .filter(|(first, last)| last > first)
                .map(|(first, last)| Event {
                    kind: EventKind::Ecc,
                    step: None,
                    value: Some((last - first) as f64),
                    detail: format!("{} memory errors that ECC could not correct", last - first),
                }),
        );
        events.extend(self.events.iter().cloned());
        events
    }
}

fn round_to(seconds: f64, ticks: f64) -> f64 {
    (seconds * ticks).round() / ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(readings: impl IntoIterator<Item = Reading>) -> Trace {
        let mut trace = Trace::default();
        readings.into_iter().for_each(|reading| trace.push(reading));
        trace
    }

    fn device(values: &[Option<u64>]) -> Trace {
        trace(values.iter().map(|value| Reading {
            device_bytes: *value,
            ..Reading::default()
        }))
    }

    #[test]
    fn device_memory_is_relative_to_the_first_reading() {
        let trace = device(&[Some(1000), Some(5000), Some(2000)]);
        assert_eq!(trace.device_peak_bytes(), Some(4000));
        assert_eq!(trace.process_peak_bytes(), None);
    }

    #[test]
    fn a_peak_is_absent_if_the_last_reading_failed() {
        assert_eq!(device(&[Some(1000), Some(5000), None]).device_peak_bytes(), None);
        let gap = device(&[Some(1000), None, Some(5000)]);
        assert_eq!(gap.device_peak_bytes(), Some(4000));
    }

    #[test]
    fn a_failed_first_reading_leaves_no_baseline() {
        assert_eq!(device(&[None, Some(5000)]).device_peak_bytes(), None);
    }

    #[test]
    fn peaks_include_readings_that_thinning_drops() {
        let trace = trace((0..100_000u64).map(|index| Reading {
            process_bytes: Some(if index == 12_345 { 777 } else { 1 }),
            ..Reading::default()
        }));
        assert_eq!(trace.process_peak_bytes(), Some(777));
    }

    #[test]
    fn an_unlisted_process_does_not_invalidate_its_peak() {
        let listed = |process_bytes| Reading {
            processes: Some(vec![]),
            process_bytes,
            ..Reading::default()
        };
        let trace = trace([listed(None), listed(Some(5)), listed(None)]);
        assert_eq!(trace.process_peak_bytes(), Some(5));
    }

    #[test]
    fn quantities_of_full_readings_have_no_gaps() {
        let trace = trace((0..30u32).map(|index| Reading {
            seconds: f64::from(index) / 100.0,
            brief: index % 10 != 0,
            power_watts: Some(1.0),
            utilisation: (index % 10 == 0).then_some(0.5),
            ..Reading::default()
        }));
        let series = trace.series();
        let series_of = |name: SeriesName| series.iter().find(|series| series.name == name).unwrap();
        assert_eq!(series_of(SeriesName::PowerWatts).y.len(), 30);
        assert_eq!(series_of(SeriesName::Utilisation).x, [0.0, 0.1, 0.2]);
        assert_eq!(series_of(SeriesName::Utilisation).y, [Some(0.5); 3]);
    }

    #[test]
    fn a_quantity_that_fails_is_absent_and_not_zero() {
        let trace = trace((0..4u32).map(|index| Reading {
            seconds: f64::from(index),
            power_watts: (index == 1 || index == 2).then_some(9.0),
            ..Reading::default()
        }));
        let series = trace.series();
        assert_eq!(series.len(), 1, "quantities without a value have no series");
        assert_eq!(series[0].x, [1.0, 2.0, 3.0]);
        assert_eq!(series[0].y, [Some(9.0), Some(9.0), None]);
    }

    #[test]
    fn ecc_errors_are_counted_from_the_first_reading() {
        let ecc = |errors: &[u64]| {
            trace(errors.iter().map(|errors| Reading {
                ecc_uncorrected: Some(*errors),
                ..Reading::default()
            }))
            .events()
        };
        assert!(ecc(&[3, 3]).is_empty());
        assert_eq!(ecc(&[3, 3, 5])[0].value, Some(2.0));
    }
}
