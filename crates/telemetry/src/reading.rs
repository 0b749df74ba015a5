//! One look at everything that can be sampled.

/// What was read at one moment. Absent is what the machine does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Resident memory of this process, bytes.
    pub host_bytes: Option<u64>,
    /// High-water mark of the resident memory of this process since its start, bytes.
    pub host_peak_bytes: Option<u64>,
    /// Memory in use on the whole device, bytes.
    pub device_bytes: Option<u64>,
    /// Device memory of this process, bytes.
    pub process_bytes: Option<u64>,
    /// Power draw of the device, watts.
    pub power_watts: Option<f64>,
    /// Energy counter of the device since the driver was loaded, joules.
    pub energy_joules: Option<f64>,
    /// Clock of the streaming multiprocessors, hertz.
    pub sm_clock_hz: Option<f64>,
    /// Core temperature, degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Bits of the reasons for which the clock is held back; see [`crate::throttle_reasons`].
    pub throttle: Option<u64>,
}

/// Something that can be read again and again, cheaply.
pub trait Source: Send {
    /// Fills in the parts of `reading` that it knows.
    fn read(&mut self, reading: &mut Reading);

    /// What it was asked for and never could tell, each with its reason: `power: not supported`.
    fn missing(&self) -> Vec<String>;
}
