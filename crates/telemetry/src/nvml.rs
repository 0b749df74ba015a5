//! NVIDIA's management library, found at run time.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    sync::OnceLock,
};

use mantissa_core::Gpu;
use nvml_wrapper::{
    Device as NvmlDevice, Nvml, cuda_driver_version_major, cuda_driver_version_minor,
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::device::UsedGpuMemory,
    error::NvmlError,
};

use crate::{Reading, Source, throttle_reasons};

/// Names under which the library is looked for. Containers often have the versioned one alone.
const LIBRARY: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// A device as NVML sees it now.
#[derive(Debug, Clone)]
pub struct Device {
    /// What it is.
    pub gpu: Gpu,
    /// Memory in use on the whole device, bytes.
    pub used_bytes: Option<u64>,
    /// Power draw, watts.
    pub power_watts: Option<f64>,
    /// Enforced power limit, watts.
    pub power_limit_watts: Option<f64>,
    /// Clock of the streaming multiprocessors, hertz.
    pub sm_clock_hz: Option<f64>,
    /// Core temperature, degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Why the clock is held back at this moment.
    pub throttle: Vec<&'static str>,
    /// Processes that compute on it.
    pub processes: Option<usize>,
}

fn library() -> Result<&'static Nvml, &'static str> {
    static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
    let open = || {
        let open = |name: &str| Nvml::builder().lib_path(OsStr::new(name)).init();
        open(LIBRARY[0])
            .or_else(|_| open(LIBRARY[1]))
            .or_else(|_| Nvml::init())
            .map_err(|error| match error {
                NvmlError::LibloadingError(_) => format!("the library `{}` is not there", LIBRARY[0]),
                other => other.to_string(),
            })
    };
    NVML.get_or_init(open).as_ref().map_err(String::as_str)
}

/// Why NVML cannot be asked, if so.
pub fn unavailable() -> Option<&'static str> {
    library().err()
}

/// The machine's NVIDIA devices, in the order of their PCI bus ids; none where NVML is missing.
pub fn gpus() -> Vec<Gpu> {
    let Ok(nvml) = library() else { return vec![] };
    let count = nvml.device_count().unwrap_or(0);
    (0..count)
        .filter_map(|index| nvml.device_by_index(index).ok())
        .map(|device| describe(nvml, &device))
        .collect()
}

/// The devices with what they are doing now.
pub fn state() -> Vec<Device> {
    let Ok(nvml) = library() else { return vec![] };
    let count = nvml.device_count().unwrap_or(0);
    let devices = (0..count).filter_map(|index| nvml.device_by_index(index).ok());
    devices
        .map(|device| Device {
            gpu: describe(nvml, &device),
            used_bytes: device.memory_info().ok().map(|memory| memory.used),
            power_watts: device.power_usage().ok().map(watts),
            power_limit_watts: device.enforced_power_limit().ok().map(watts),
            sm_clock_hz: device.clock_info(Clock::SM).ok().map(hertz),
            temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            throttle: device
                .current_throttle_reasons()
                .map(|bits| throttle_reasons(bits.bits()))
                .unwrap_or_default(),
            processes: device
                .running_compute_processes()
                .ok()
                .map(|processes| processes.len()),
        })
        .collect()
}

fn describe(nvml: &Nvml, device: &NvmlDevice<'_>) -> Gpu {
    let cuda = nvml.sys_cuda_driver_version().ok();
    let capability = device.cuda_compute_capability().ok();
    Gpu {
        name: device
            .name()
            .unwrap_or_else(|error| format!("unnamed device ({error})")),
        uuid: device.uuid().ok(),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        compute_capability: capability.map(|version| format!("{}.{}", version.major, version.minor)),
        driver: nvml.sys_driver_version().ok(),
        cuda: cuda.map(|v| {
            format!(
                "{}.{}",
                cuda_driver_version_major(v),
                cuda_driver_version_minor(v)
            )
        }),
    }
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}

fn hertz(megahertz: u32) -> f64 {
    f64::from(megahertz) * 1e6
}

/// Reads one device, found by its UUID: an index means another device to every library.
pub struct GpuSource {
    device: Result<NvmlDevice<'static>, String>,
    pid: u32,
    /// Quantities that were read at least once.
    seen: BTreeSet<&'static str>,
    /// The last reason for which a quantity could not be read.
    failed: BTreeMap<&'static str, String>,
}

impl GpuSource {
    /// The device of this UUID. One that cannot be opened reads nothing and says so in [`Source::missing`].
    pub fn open(uuid: &str) -> Self {
        let device = library().map_err(str::to_owned).and_then(|nvml| {
            nvml.device_by_uuid(uuid)
                .map_err(|error| format!("device `{uuid}`: {error}"))
        });
        Self {
            device,
            pid: std::process::id(),
            seen: BTreeSet::new(),
            failed: BTreeMap::new(),
        }
    }
}

impl Source for GpuSource {
    fn read(&mut self, reading: &mut Reading) {
        let Ok(device) = &self.device else { return };
        reading.thorough = true;
        let mut notes = Notes {
            seen: &mut self.seen,
            failed: &mut self.failed,
        };
        reading.device_bytes = notes.keep("device memory", device.memory_info().map(|memory| memory.used));
        reading.power_watts = notes.keep("power", device.power_usage().map(watts));
        let energy = device
            .total_energy_consumption()
            .map(|millijoules| millijoules as f64 / 1e3);
        reading.energy_joules = notes.keep("energy counter", energy);
        reading.sm_clock_hz = notes.keep("clock", device.clock_info(Clock::SM).map(hertz));
        let temperature = device.temperature(TemperatureSensor::Gpu).map(f64::from);
        reading.temperature_celsius = notes.keep("temperature", temperature);
        let throttle = device.current_throttle_reasons().map(|reasons| reasons.bits());
        reading.throttle = notes.keep("throttle reasons", throttle);
        let processes = device
            .running_compute_processes()
            .map_err(|error| error.to_string());
        let own = processes.and_then(|processes| {
            let own = processes.iter().find(|process| process.pid == self.pid);
            match own.map(|process| &process.used_gpu_memory) {
                Some(UsedGpuMemory::Used(bytes)) => Ok(*bytes),
                Some(UsedGpuMemory::Unavailable) => Err("the driver hides it".into()),
                None => Err("the driver does not list this process (containers hide it)".into()),
            }
        });
        reading.process_bytes = notes.keep("process memory", own);
    }

    fn missing(&self) -> Vec<String> {
        match &self.device {
            Err(reason) => vec![format!("NVML: {reason}")],
            Ok(_) => {
                let never = self.failed.iter().filter(|(what, _)| !self.seen.contains(*what));
                never.map(|(what, reason)| format!("{what}: {reason}")).collect()
            }
        }
    }
}

struct Notes<'a> {
    seen: &'a mut BTreeSet<&'static str>,
    failed: &'a mut BTreeMap<&'static str, String>,
}

impl Notes<'_> {
    /// Keeps a reading, and the reason of one that failed until it has succeeded once.
    fn keep<T>(&mut self, what: &'static str, result: Result<T, impl ToString>) -> Option<T> {
        match result {
            Ok(value) => {
                self.seen.insert(what);
                Some(value)
            }
            Err(error) => {
                if !self.seen.contains(what) && !self.failed.contains_key(what) {
                    self.failed.insert(what, error.to_string());
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_reads_nothing_and_is_named_once() {
        let mut source = GpuSource::open("GPU-00000000-0000-0000-0000-000000000000");
        let mut reading = Reading::default();
        source.read(&mut reading);
        source.read(&mut reading);
        assert_eq!(reading, Reading::default());
        assert_eq!(source.missing().len(), 1);
        assert!(source.missing()[0].starts_with("NVML: "));
    }

    #[test]
    fn a_quantity_that_comes_late_is_not_missing() {
        let (mut seen, mut failed) = (BTreeSet::new(), BTreeMap::new());
        let mut notes = Notes {
            seen: &mut seen,
            failed: &mut failed,
        };
        assert_eq!(notes.keep("process memory", Err::<u64, _>("not listed")), None);
        assert_eq!(notes.keep("process memory", Ok::<_, String>(7)), Some(7));
        assert!(seen.contains("process memory"));
    }
}
