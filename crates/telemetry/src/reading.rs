//! Readings, their sources and the period between them.

use std::time::Duration;

use mantissa_core::Event;

/// Sampling period. An NVML sensor keeps each value for at least 20 ms (power on an A100 or H100: 25 to 100 ms, arXiv
/// 2312.02741), so a reading every 10 ms sees every value. [`crate::Trace::rate`] reports the cost of sampling.
pub const PERIOD: Duration = Duration::from_millis(10);

/// Values read at one time. A value that the machine does not report is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Start of the reading, in seconds since the start of the sampler. Set before the sources are read.
    pub seconds: f64,
    /// Delay of the start after its scheduled time, in seconds; absent for readings without a scheduled time, such as
    /// the last one.
    pub late_seconds: Option<f64>,
    /// Duration of the reading in seconds.
    pub taken_seconds: Option<f64>,
    /// Resident memory of the measured process in bytes. Absent in brief readings.
    pub host_bytes: Option<u64>,
    /// Peak resident memory of the measured process since its start or the last reset, in bytes. Absent in brief
    /// readings: the operating system records the peak, so a later full reading reports it.
    pub host_peak_bytes: Option<u64>,
    /// Memory in use on the whole device, or on the MIG slice, in bytes.
    pub device_bytes: Option<u64>,
    /// Device memory of the measured process in bytes. Absent in brief readings.
    pub process_bytes: Option<u64>,
    /// Power draw of the device in watts.
    pub power_watts: Option<f64>,
    /// Averaging time of the power sensor in seconds.
    pub power_averaged_seconds: Option<f64>,
    /// Energy counter of the device since the driver was loaded, in joules.
    pub energy_joules: Option<f64>,
    /// Clock of the streaming multiprocessors, hertz.
    pub sm_clock_hz: Option<f64>,
    /// Clock of the device memory, hertz.
    pub memory_clock_hz: Option<f64>,
    /// Core temperature, degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// NVML bits of the reasons why the clock is limited; see [`crate::throttle_reasons`].
    pub throttle: Option<u64>,
    /// True for a brief reading, which leaves out host memory, processes, utilisation and ECC errors. These are
    /// expensive to read or change slowly, and the system records the peak of host memory. Set before the sources are
    /// read.
    pub brief: bool,
    /// Share of the time in which a kernel ran, 0 to 1. Absent in brief readings.
    pub utilisation: Option<f64>,
    /// Uncorrectable memory errors since the driver was loaded. Absent in brief readings.
    pub ecc_uncorrected: Option<u64>,
    /// Processes that compute on the device. Absent in brief readings.
    pub processes: Option<Vec<Process>>,
}

/// Process that computes on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id according to the driver. In a container, it may differ from the id that the process itself sees.
    pub pid: u32,
    /// Device memory in bytes; absent if the driver hides it.
    pub bytes: Option<u64>,
    /// True for the process that is measured and for processes that belong to it.
    pub own: bool,
}

/// Source that can be read repeatedly at low cost.
pub trait Source: Send {
    /// Sets the values of `reading` that the source supports. Must not panic.
    fn read(&mut self, reading: &mut Reading);

    /// Returns true if a value can change within a tenth of a second. Without such a source, the sampler takes only
    /// full readings.
    fn changes_fast(&self) -> bool {
        true
    }

    /// Returns the quantities that are not available, each with a reason, e.g. `power: not supported`. If a quantity was
    /// available at first, the text contains the time of the first failure.
    fn missing(&self) -> Vec<String>;

    /// Returns events for the record.
    fn events(&self) -> Vec<Event> {
        vec![]
    }
}
