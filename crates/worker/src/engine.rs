//! Implementation of the parent's [`Engine`] trait for burn.

use std::path::{Path, PathBuf};

use mantissa_core::{Backend, Cell, Format, Support};
use mantissa_runner::{Engine, KernelToCheck, RunError};
use mantissa_workloads::{backend, peer::Peer};

/// The burn version that this build is linked with.
#[derive(Debug, Clone, Copy)]
pub struct Burn;

impl Engine for Burn {
    fn available(&self, backend: Backend) -> Result<(), String> {
        backend::available(backend)
    }

    fn device_name(&self, backend: Backend) -> Option<String> {
        backend::device_name(backend)
    }

    fn device_uuids(&self, backend: Backend) -> Vec<String> {
        backend::device_uuids(backend)
    }

    fn nccl_version(&self) -> Result<String, String> {
        backend::nccl_version()
    }

    fn format_support(&self, backend: Backend) -> Vec<(Format, Support)> {
        backend::format_support(backend)
    }

    fn kernels_to_check(&self, cell: &Cell) -> Vec<KernelToCheck> {
        let to_check = |check: mantissa_workloads::KernelToCheck| KernelToCheck {
            cell: check.cell,
            operation: check.operation,
            candidate: check.candidate,
        };
        mantissa_workloads::kernels_to_check(cell)
            .into_iter()
            .map(to_check)
            .collect()
    }

    fn kernel_folder(&self, backend: Backend, cache: &Path) -> PathBuf {
        backend::kernel_folder(backend, cache)
    }

    fn peer_name(
        &self,
        command: &[String],
        stop_requested: &dyn Fn() -> bool,
    ) -> Result<Option<String>, RunError> {
        let info = Peer::program_info_of(command, stop_requested);
        let info = info.map_err(|error| RunError::Input(error.to_string()))?;
        Ok(info.map(|info| info.name))
    }
}
