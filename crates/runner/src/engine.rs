//! Interface between the parent process and the compute library of the workers.

use std::path::{Path, PathBuf};

use mantissa_core::{Backend, Cell, CheckedOperation, Format, Support};

use crate::RunError;

/// Candidate kernel that is compared with float64 before it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelToCheck {
    /// Cell with the setting of the check.
    pub cell: Cell,
    /// Operation of the kernel.
    pub operation: CheckedOperation,
    /// Name of the candidate.
    pub candidate: String,
}

impl KernelToCheck {
    /// Returns precision, matmul precision and accumulator as text.
    pub fn setting(&self) -> String {
        let setting = &self.cell.setting;
        format!(
            "{} {} {}",
            setting.precision(),
            setting.matmul(),
            setting.accumulator()
        )
    }
}

/// Part of the workers' compute library that the parent process needs: queries of devices and kernels. The parent process never computes.
pub trait Engine {
    /// Checks that a backend can be used on this machine.
    ///
    /// # Errors
    /// Name of the missing library or device, on one line.
    fn available(&self, backend: Backend) -> Result<(), String>;

    /// Returns the name of the first device of a backend that is [available](Self::available).
    fn device_name(&self, backend: Backend) -> Option<String>;

    /// Returns the UUIDs of the devices of a backend in the format of NVML, in the order of the driver.
    fn device_uuids(&self, backend: Backend) -> Vec<String>;

    /// Returns the version of NCCL, which sums the gradients of several GPUs.
    ///
    /// # Errors
    /// NCCL is not available, with the reason.
    fn nccl_version(&self) -> Result<String, String>;

    /// Returns the support of the first device of a backend for each format.
    fn format_support(&self, backend: Backend) -> Vec<(Format, Support)>;

    /// Returns the candidate kernels of a cell, which are checked before it is measured.
    fn kernels_to_check(&self, cell: &Cell) -> Vec<KernelToCheck>;

    /// Returns the folder of compiled kernels and their checks for the first device of a backend and this program.
    /// `cache` is the folder of all caches.
    fn kernel_folder(&self, backend: Backend, cache: &Path) -> PathBuf;

    /// Starts a peer, a program that computes with another framework, and returns the name of the framework. Polls
    /// `stop_requested`, which returns true when the run must stop, and returns `None` if it does so before the peer replies.
    ///
    /// # Errors
    /// The program does not start, or its reply cannot be parsed.
    fn peer_name(
        &self,
        command: &[String],
        stop_requested: &dyn Fn() -> bool,
    ) -> Result<Option<String>, RunError>;
}
