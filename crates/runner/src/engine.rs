//! Interface between the parent process and the compute library of the workers.

use mantissa_core::{Backend, Format, Support};

use crate::RunError;

/// Compute library of the workers, as far as the parent process needs it: to query devices. The parent process never computes.
pub trait Engine {
    /// Checks that a backend can be used on this machine.
    ///
    /// # Errors
    /// The library or device that is missing, on one line.
    fn available(&self, backend: Backend) -> Result<(), String>;

    /// Returns the name of the first device of a backend that is [available](Self::available).
    fn device_name(&self, backend: Backend) -> Option<String>;

    /// Returns the UUID of that device, as NVML writes it.
    fn device_uuid(&self, backend: Backend) -> Option<String>;

    /// Returns how that device computes in each format.
    fn format_support(&self, backend: Backend) -> Vec<(Format, Support)>;

    /// Returns the name of the framework that a peer, the program behind `command`, computes with. Returns `None` if `give_up` returned
    /// true first.
    ///
    /// # Errors
    /// The program does not start, or its reply cannot be parsed.
    fn peer_name(&self, command: &[String], give_up: &dyn Fn() -> bool) -> Result<Option<String>, RunError>;
}
