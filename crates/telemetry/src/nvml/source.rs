//! Telemetry source of one device.

use std::path::Path;

use mantissa_core::Event;
use nvml_wrapper::{
    Device as NvmlDevice,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    enums::device::{SampleValue, UsedGpuMemory},
    error::NvmlError,
    structs::device::FieldId,
    sys_exports::field_id::NVML_FI_DEV_POWER_INSTANT,
};

use super::{device_lookup::FoundDevice, library::Library, read_log::ReadLog};
use crate::{Process, Reading, Source};

/// Maximum averaging time of `NVML_FI_DEV_POWER_INSTANT` in seconds (25 to 100 ms, arXiv 2312.02741).
const INSTANT_SECONDS: f64 = 0.1;

/// Averaging time of `nvmlDeviceGetPowerUsage` on Ampere (except GA100) and later, in seconds (NVML reference). Earlier
/// GPUs report the instantaneous power. The generations cannot be distinguished, so this assumes the longest time.
const USAGE_SECONDS: f64 = 1.0;

const NO_CONTEXT: &str =
    "the driver does not list this process (it has not used the device, or a container hides it)";

/// Source that reads one device, identified by its UUID or PCI bus id.
pub struct GpuSource {
    device: Result<FoundDevice, String>,
    /// Ids of the own processes: the measured process first, then this process if it measures another one.
    own: Vec<u32>,
    /// Kind of power reading that the device supports; `None` before the first successful reading.
    power: Option<PowerReading>,
    log: ReadLog,
}

#[derive(Debug, Clone, Copy)]
enum PowerReading {
    Instant,
    Usage,
}

impl GpuSource {
    /// Opens a device by its UUID (`GPU-…`, `MIG-…`) or PCI bus id (`0000:17:00.0`), as reported by CUDA. If this
    /// fails, readings are empty and [`Source::missing`] contains the reason.
    pub fn open(id: &str) -> Self {
        Self::from_library(Library::of_this_machine().map_err(str::to_owned), id)
    }

    /// Opens a device like [`GpuSource::open`], with the NVML library from a file.
    pub fn open_with(library: &Path, id: &str) -> Self {
        Self::from_library(Library::at(library), id)
    }

    /// Measures the process `pid` instead of the current process. [`Process::own`] is then true for both processes.
    pub fn of(mut self, pid: u32) -> Self {
        self.own.insert(0, pid);
        self
    }

    fn from_library(library: Result<Library, String>, id: &str) -> Self {
        let device = library.and_then(|library| library.find(id));
        let mut log = ReadLog::default();
        if let Ok(found) = &device {
            if let Some(reason) = found.no_power {
                log.disable(&[POWER, ENERGY, UTILISATION, ECC], reason);
            }
            if let Some(reason) = found.no_memory {
                log.disable(&[DEVICE_MEMORY, PROCESSES, PROCESS_MEMORY], reason);
            }
        }
        Self {
            device,
            own: vec![std::process::id()],
            power: None,
            log,
        }
    }
}

// Names of the quantities in lists of missing telemetry.
const DEVICE_MEMORY: &str = "device memory";
const POWER: &str = "power";
const ENERGY: &str = "energy counter";
const SM_CLOCK: &str = "clock";
const MEMORY_CLOCK: &str = "memory clock";
const TEMPERATURE: &str = "temperature";
const THROTTLE: &str = "throttle reasons";
const UTILISATION: &str = "utilisation";
const ECC: &str = "ECC errors";
const PROCESSES: &str = "processes";
const PROCESS_MEMORY: &str = "process memory";

impl Source for GpuSource {
    fn read(&mut self, reading: &mut Reading) {
        let Ok(found) = &self.device else { return };
        let (now, log) = (reading.seconds, &mut self.log);
        if log.is_lost() {
            return;
        }
        // Read energy and power first. They are integrated over time, so they must be read as close as possible to the
        // recorded time of the reading.
        let joules = || found.device.total_energy_consumption();
        reading.energy_joules = log
            .read(ENERGY, now, joules)
            .map(|millijoules| millijoules as f64 / 1e3);
        if let Some((watts, averaged)) = log.read(POWER, now, || read_power(&found.device, &mut self.power)) {
            reading.power_watts = Some(watts);
            reading.power_averaged_seconds = Some(averaged);
        }
        let memory = || found.device.memory_info();
        reading.device_bytes = log.read(DEVICE_MEMORY, now, memory).map(|memory| memory.used);
        let board = found.board.as_ref().unwrap_or(&found.device);
        let clock = |clock| board.clock_info(clock).map(hertz);
        reading.sm_clock_hz = log.read(SM_CLOCK, now, || clock(Clock::SM));
        reading.memory_clock_hz = log.read(MEMORY_CLOCK, now, || clock(Clock::Memory));
        let temperature = || board.temperature(TemperatureSensor::Gpu);
        reading.temperature_celsius = log.read(TEMPERATURE, now, temperature).map(f64::from);
        let throttle = || board.current_throttle_reasons();
        reading.throttle = log.read(THROTTLE, now, throttle).map(|reasons| reasons.bits());
        if !reading.brief {
            read_slow_quantities(found, &self.own, log, reading);
        }
    }

    fn missing(&self) -> Vec<String> {
        match &self.device {
            Err(reason) => vec![format!("NVML: {reason}")],
            Ok(_) => self.log.missing(),
        }
    }

    fn events(&self) -> Vec<Event> {
        self.log.events()
    }
}

/// Reads the quantities that only full readings contain: utilisation, ECC errors and processes.
fn read_slow_quantities(found: &FoundDevice, own: &[u32], log: &mut ReadLog, reading: &mut Reading) {
    let now = reading.seconds;
    let utilisation = || found.device.utilization_rates();
    reading.utilisation = log
        .read(UTILISATION, now, utilisation)
        .map(|percent| f64::from(percent.gpu) / 100.0);
    let errors = || {
        found
            .device
            .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
    };
    reading.ecc_uncorrected = log.read(ECC, now, errors);
    let listed = || processes(&found.device, own);
    reading.processes = log.read(PROCESSES, now, listed);
    let Some(processes) = &reading.processes else {
        log.note_absent(PROCESS_MEMORY, now, "the driver lists no processes");
        return;
    };
    // Sum over all entries of the process: a GPU with MIG slices may list a process once per slice.
    let this = processes
        .iter()
        .filter(|process| Some(&process.pid) == own.first());
    let this: Vec<Option<u64>> = this.map(|process| process.bytes).collect();
    let sum = this
        .iter()
        .copied()
        .sum::<Option<u64>>()
        .filter(|_| !this.is_empty());
    match sum {
        Some(_) => log.note_available(PROCESS_MEMORY),
        None if this.is_empty() => log.note_absent(PROCESS_MEMORY, now, NO_CONTEXT),
        None => log.note_absent(PROCESS_MEMORY, now, "the driver hides it"),
    }
    reading.process_bytes = sum;
}

/// Lists the processes that compute on a device.
pub(super) fn processes(device: &NvmlDevice<'_>, own: &[u32]) -> Result<Vec<Process>, NvmlError> {
    let listed = device.running_compute_processes()?;
    let process = |pid: u32, memory: &UsedGpuMemory| Process {
        pid,
        bytes: match memory {
            UsedGpuMemory::Used(bytes) => Some(*bytes),
            UsedGpuMemory::Unavailable => None,
        },
        own: own.contains(&pid),
    };
    Ok(listed
        .iter()
        .map(|one| process(one.pid, &one.used_gpu_memory))
        .collect())
}

/// Returns the power in watts and its averaging time in seconds. Prefers the instantaneous power if the device supports
/// it.
fn read_power(device: &NvmlDevice<'_>, kind: &mut Option<PowerReading>) -> Result<(f64, f64), NvmlError> {
    let usage = || {
        device
            .power_usage()
            .map(|watts| (self::watts(watts), USAGE_SECONDS))
    };
    match kind {
        Some(PowerReading::Instant) => instant_power(device),
        Some(PowerReading::Usage) => usage(),
        None => {
            let (reading, supported) = match instant_power(device) {
                Ok(instant) => (Ok(instant), PowerReading::Instant),
                Err(lost @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => return Err(lost),
                Err(_) => (usage(), PowerReading::Usage),
            };
            *kind = reading.is_ok().then_some(supported);
            reading
        }
    }
}

fn instant_power(device: &NvmlDevice<'_>) -> Result<(f64, f64), NvmlError> {
    let mut fields = device.field_values_for(&[FieldId(NVML_FI_DEV_POWER_INSTANT)])?;
    let field = fields.pop().ok_or(NvmlError::NoData)??;
    match field.value? {
        SampleValue::U32(milliwatts) => Ok((watts(milliwatts), INSTANT_SECONDS)),
        _ => Err(NvmlError::NoData),
    }
}

pub(super) fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}

pub(super) fn hertz(megahertz: u32) -> f64 {
    f64::from(megahertz) * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_yields_empty_readings_and_one_reason() {
        let mut source = GpuSource::open("GPU-00000000-0000-0000-0000-000000000000");
        let mut reading = Reading::default();
        source.read(&mut reading);
        source.read(&mut reading);
        assert_eq!(reading, Reading::default());
        assert_eq!(source.missing().len(), 1);
        assert!(source.missing()[0].starts_with("NVML: "));
    }
}
