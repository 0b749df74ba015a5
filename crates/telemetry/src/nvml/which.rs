//! Which device is meant. NVML counts devices along the PCI bus, CUDA the fastest first: an index means another device
//! to every library, so that a device goes by its UUID or its bus id.

use nvml_wrapper::Device as NvmlDevice;

use super::library::{Library, reason};

/// `nvmlDeviceGetMigMode`: the GPU is cut into slices.
const MIG_ENABLED: u32 = 1;

/// A device, and which of its readings mean what is asked.
pub(super) struct Found {
    /// Memory and processes are read here.
    pub(super) device: NvmlDevice<'static>,
    /// The GPU of a slice, where clocks, temperature and throttle reasons are read: its slices share them.
    pub(super) board: Option<NvmlDevice<'static>>,
    /// Why its power, energy and utilisation cannot be told, if so.
    pub(super) shared: Option<&'static str>,
    /// Why its memory and processes cannot be told, if so.
    pub(super) whole: Option<&'static str>,
}

const A_SLICE: &str = "a MIG slice has no sensor of its own, and the sensor of its GPU counts every slice";
const SLICED: &str = "MIG is on, and the GPU's own reading counts every slice";

impl Library {
    /// The device of a UUID (`GPU-…`, `MIG-…`) or of a PCI bus id (`0000:17:00.0`), as CUDA reports them.
    pub(super) fn find(self, id: &str) -> Result<Found, String> {
        let by_uuid = id.starts_with("GPU-") || id.starts_with("MIG-");
        let device = if by_uuid {
            self.nvml.device_by_uuid(id)
        } else {
            self.nvml.device_by_pci_bus_id(id)
        };
        let device = device.map_err(|error| format!("device `{id}`: {}", reason(&error)))?;
        // Drivers that know no slices have no such function.
        if device
            .mig_is_mig_device_handle()
            .unwrap_or(id.starts_with("MIG-"))
        {
            let board = device.mig_parent_device().ok();
            return Ok(Found {
                device,
                board,
                shared: Some(A_SLICE),
                whole: None,
            });
        }
        let sliced = device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED);
        let sliced = sliced.then_some(SLICED);
        Ok(Found {
            device,
            board: None,
            shared: sliced,
            whole: sliced,
        })
    }
}
