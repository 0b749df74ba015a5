//! One look at everything that can be sampled.

use mantissa_core::Event;

/// What was read at one moment. Absent is what the machine does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// When it was begun, seconds since the start of the sampler. Sources find it filled in.
    pub seconds: f64,
    /// How long after its due time it was begun, seconds; absent where none was due, as at the end.
    pub late_seconds: Option<f64>,
    /// How long it took, seconds of wall time.
    pub taken_seconds: Option<f64>,
    /// Resident memory of this process, bytes. Read less often.
    pub host_bytes: Option<u64>,
    /// High-water mark of the resident memory of this process since its start, bytes. Read less
    /// often: the system keeps it.
    pub host_peak_bytes: Option<u64>,
    /// Memory in use on the whole device (of a MIG slice: on the slice), bytes.
    pub device_bytes: Option<u64>,
    /// Device memory of this process, bytes. Read less often.
    pub process_bytes: Option<u64>,
    /// Power draw of the device, watts.
    pub power_watts: Option<f64>,
    /// Over how long the sensor averages that power, seconds.
    pub power_averaged_seconds: Option<f64>,
    /// Energy counter of the device since the driver was loaded, joules.
    pub energy_joules: Option<f64>,
    /// Clock of the streaming multiprocessors, hertz.
    pub sm_clock_hz: Option<f64>,
    /// Clock of the device memory, hertz.
    pub memory_clock_hz: Option<f64>,
    /// Core temperature, degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Bits of the reasons for which the clock is held back; see [`crate::throttle_reasons`].
    pub throttle: Option<u64>,
    /// Whether the quantities that are read less often are left out this time: host memory, processes, utilisation,
    /// ECC errors. They cost more, change slowly, or keep their own peak. Sources find it filled in.
    pub brief: bool,
    /// Share of the time in which a kernel ran, 0 to 1. Read less often.
    pub utilisation: Option<f64>,
    /// Memory errors that ECC could not correct, since the driver was loaded. Read less often.
    pub ecc_uncorrected: Option<u64>,
    /// What computes on the device. Read less often.
    pub processes: Option<Vec<Process>>,
}

/// A process that computes on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number, as the driver gives it: in a container it may be another one than the process itself sees.
    pub pid: u32,
    /// Its device memory, bytes; absent where the driver hides it.
    pub bytes: Option<u64>,
    /// Whether it is the one that is measured, or belongs to it.
    pub own: bool,
}

/// Something that can be read again and again, cheaply.
pub trait Source: Send {
    /// Fills in the parts of `reading` that it knows. It must not panic, whatever it finds.
    fn read(&mut self, reading: &mut Reading);

    /// Whether there is anything in it that a reading ten times a second would miss. Without such a source the sampler
    /// does not wake for the readings between.
    fn changes_fast(&self) -> bool {
        true
    }

    /// What it was asked for and cannot tell, each with its reason and, if it could at first, since when:
    /// `power: not supported`.
    fn missing(&self) -> Vec<String>;

    /// What happened to it that a record should tell.
    fn events(&self) -> Vec<Event> {
        vec![]
    }
}
