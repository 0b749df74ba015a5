//! Current state of all devices.

use mantissa_core::Gpu;
use nvml_wrapper::{
    Device as NvmlDevice,
    bitmasks::device::ThrottleReasons,
    cuda_driver_version_major, cuda_driver_version_minor,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    error::NvmlError,
};

use super::{
    library::{Library, reason},
    source::{hertz, processes, watts},
};
use crate::{Process, throttle_reasons};

/// Current state of a device according to NVML.
#[derive(Debug, Clone)]
pub struct Device {
    /// Description of the GPU.
    pub gpu: Gpu,
    /// PCI bus id, e.g. `00000000:17:00.0`. Like the UUID, it identifies the device in CUDA as well.
    pub pci_bus_id: Option<String>,
    /// Memory in use on the whole device, bytes.
    pub used_bytes: Option<u64>,
    /// Power draw, watts.
    pub power_watts: Option<f64>,
    /// Default power limit in watts.
    pub power_limit_default_watts: Option<f64>,
    /// Clock of the streaming multiprocessors, hertz.
    pub sm_clock_hz: Option<f64>,
    /// Clock of the device memory, hertz.
    pub memory_clock_hz: Option<f64>,
    /// Core temperature, degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// NVML bits of everything that limits the clock, including harmless settings; see [`crate::clock_settings`].
    pub clock_bits: Option<u64>,
    /// Reasons why the clock is currently throttled.
    pub throttle: Vec<&'static str>,
    /// Number of processes that compute on the device.
    pub processes: Option<usize>,
    /// Uncorrectable memory errors since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// True if the device is partitioned into MIG slices.
    pub mig: Option<bool>,
}

/// Returns the NVIDIA devices of the machine in the order of their PCI bus ids; an empty list without NVML. A device
/// that does not respond keeps its position.
pub fn gpus() -> Vec<Gpu> {
    Library::of_this_machine().map(Library::gpus).unwrap_or_default()
}

/// Returns the current state of all devices.
pub fn state() -> Vec<Device> {
    Library::of_this_machine().map(Library::state).unwrap_or_default()
}

impl Library {
    /// Returns the devices like [`gpus`], from this library.
    pub fn gpus(self) -> Vec<Gpu> {
        self.devices().map(|device| self.describe(&device)).collect()
    }

    /// Returns the state of the devices like [`state`], from this library.
    pub fn state(self) -> Vec<Device> {
        self.devices().map(|device| self.device_state(&device)).collect()
    }

    /// Returns the only device of this machine.
    ///
    /// # Errors
    /// The machine has no device, or it has several and it is unknown which one CUDA uses. The error then lists them.
    pub fn only_gpu(self) -> Result<Gpu, String> {
        let mut gpus = self.gpus();
        match (gpus.pop(), gpus.as_slice()) {
            (Some(gpu), []) => Ok(gpu),
            (None, _) => Err("NVML lists no device".into()),
            (Some(last), others) => {
                let names = others.iter().chain([&last]);
                let names = names.map(|gpu| gpu.uuid.as_deref().unwrap_or(&gpu.name));
                Err(format!(
                    "NVML lists {} devices, and the one in use is unknown: {}",
                    others.len() + 1,
                    names.collect::<Vec<_>>().join(", ")
                ))
            }
        }
    }

    /// Returns the current state of a device (UUID or PCI bus id). For a MIG slice, this is the state of its GPU, which
    /// has the sensors.
    ///
    /// # Errors
    /// Reason why the device cannot be found.
    pub fn device(self, id: &str) -> Result<Device, String> {
        let found = self.find(id)?;
        Ok(self.device_state(&Ok(found.board.unwrap_or(found.device))))
    }

    /// Lists the processes that compute on a device (UUID or PCI bus id). Processes with the ids in `own` are marked as
    /// own. If the list does not contain an own process, the driver may also hide other processes.
    ///
    /// # Errors
    /// Reason why the processes cannot be listed.
    pub fn processes(self, id: &str, own: &[u32]) -> Result<Vec<Process>, String> {
        processes(&self.find(id)?.device, own).map_err(|error| reason(&error))
    }

    fn devices(self) -> impl Iterator<Item = Result<NvmlDevice<'static>, NvmlError>> {
        let count = self.nvml.device_count().unwrap_or(0);
        (0..count).map(move |index| self.nvml.device_by_index(index))
    }

    fn device_state(self, device: &Result<NvmlDevice<'_>, NvmlError>) -> Device {
        let available = device.as_ref().ok();
        let clock_bits = available.and_then(|device| device.current_throttle_reasons().ok());
        let clock_bits = clock_bits.as_ref().map(ThrottleReasons::bits);
        let processes = available.and_then(|device| device.running_compute_processes().ok());
        Device {
            gpu: self.describe(device),
            pci_bus_id: available
                .and_then(|device| device.pci_info().ok())
                .map(|pci| pci.bus_id),
            used_bytes: available
                .and_then(|device| device.memory_info().ok())
                .map(|memory| memory.used),
            power_watts: available.and_then(|device| device.power_usage().ok()).map(watts),
            power_limit_default_watts: available
                .and_then(|device| device.power_management_limit_default().ok())
                .map(watts),
            sm_clock_hz: available
                .and_then(|device| device.clock_info(Clock::SM).ok())
                .map(hertz),
            memory_clock_hz: available
                .and_then(|device| device.clock_info(Clock::Memory).ok())
                .map(hertz),
            temperature_celsius: available
                .and_then(|device| device.temperature(TemperatureSensor::Gpu).ok())
                .map(f64::from),
            clock_bits,
            throttle: clock_bits.map(throttle_reasons).unwrap_or_default(),
            processes: processes.map(|processes| processes.len()),
            ecc_uncorrected: available.and_then(|device| {
                device
                    .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
                    .ok()
            }),
            mig: available
                .and_then(|device| device.mig_mode().ok())
                .map(|mode| mode.current != 0),
        }
    }

    fn describe(self, device: &Result<NvmlDevice<'_>, NvmlError>) -> Gpu {
        let cuda = self.nvml.sys_cuda_driver_version().ok();
        let available = device.as_ref().ok();
        let capability = available.and_then(|device| device.cuda_compute_capability().ok());
        let name = match device {
            Ok(device) => device.name().map_err(|error| reason(&error)),
            Err(error) => Err(reason(error)),
        };
        Gpu {
            name: name.unwrap_or_else(|reason| format!("unnamed device ({reason})")),
            uuid: available.and_then(|device| device.uuid().ok()),
            memory_bytes: available
                .and_then(|device| device.memory_info().ok())
                .map(|memory| memory.total),
            compute_capability: capability.map(|version| format!("{}.{}", version.major, version.minor)),
            driver: self.nvml.sys_driver_version().ok(),
            cuda: cuda.map(|v| {
                format!(
                    "{}.{}",
                    cuda_driver_version_major(v),
                    cuda_driver_version_minor(v)
                )
            }),
            sm_clock_max_hz: available
                .and_then(|device| device.max_clock_info(Clock::SM).ok())
                .map(hertz),
            power_limit_watts: available
                .and_then(|device| device.enforced_power_limit().ok())
                .map(watts),
            ecc: available
                .and_then(|device| device.is_ecc_enabled().ok())
                .map(|ecc| ecc.currently_enabled),
            #[cfg(target_os = "linux")]
            persistence: available.and_then(|device| device.is_in_persistent_mode().ok()),
            // Other systems do not have this mode.
            #[cfg(not(target_os = "linux"))]
            persistence: None,
        }
    }
}
