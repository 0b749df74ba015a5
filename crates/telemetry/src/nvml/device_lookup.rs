//! Lookup of a device by UUID or PCI bus id. Indices are ambiguous: NVML lists devices in PCI bus order, and CUDA lists
//! the fastest device first.

use nvml_wrapper::Device as NvmlDevice;

use super::library::{Library, reason};

/// Value of `nvmlDeviceGetMigMode` for a GPU that is partitioned into slices.
const MIG_ENABLED: u32 = 1;

/// Device, and the readings that are not valid for it.
pub(super) struct FoundDevice {
    /// Handle for memory and processes.
    pub(super) device: NvmlDevice<'static>,
    /// GPU to which a MIG slice belongs; `None` for other devices. Clocks, temperature and throttle reasons are read from
    /// this GPU because all slices share them.
    pub(super) board: Option<NvmlDevice<'static>>,
    /// Reason why power, energy, utilisation and ECC errors are not available; `None` if they are.
    pub(super) no_power: Option<&'static str>,
    /// Reason why memory and processes are not available; `None` if they are.
    pub(super) no_memory: Option<&'static str>,
}

const NO_SENSORS_OF_SLICE: &str = "a MIG slice has no sensors, and those of its GPU measure all slices";
const ALL_SLICES: &str = "MIG is on, so the readings of the GPU include all slices";

impl Library {
    /// Finds a device by its UUID (`GPU-…`, `MIG-…`) or PCI bus id (`0000:17:00.0`), as reported by CUDA.
    pub(super) fn find(self, id: &str) -> Result<FoundDevice, String> {
        let by_uuid = id.starts_with("GPU-") || id.starts_with("MIG-");
        let device = if by_uuid {
            self.nvml.device_by_uuid(id)
        } else {
            self.nvml.device_by_pci_bus_id(id)
        };
        let device = device.map_err(|error| format!("device `{id}`: {}", reason(&error)))?;
        // Drivers without MIG support lack this function.
        if device
            .mig_is_mig_device_handle()
            .unwrap_or(id.starts_with("MIG-"))
        {
            let board = device.mig_parent_device().ok();
            return Ok(FoundDevice {
                device,
                board,
                no_power: Some(NO_SENSORS_OF_SLICE),
                no_memory: None,
            });
        }
        let sliced = device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED);
        let mig_reason = sliced.then_some(ALL_SLICES);
        Ok(FoundDevice {
            device,
            board: None,
            no_power: mig_reason,
            no_memory: mig_reason,
        })
    }
}
