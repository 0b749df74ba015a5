//! burn as the [`Engine`] of the parent process.

use mantissa_core::{Backend, Format, Support};
use mantissa_runner::{Engine, RunError};
use mantissa_workloads::{backend, peer::Peer};

/// The version of burn that this build links.
#[derive(Debug, Clone, Copy)]
pub struct Burn;

impl Engine for Burn {
    fn available(&self, backend: Backend) -> Result<(), String> {
        backend::available(backend)
    }

    fn device_name(&self, backend: Backend) -> Option<String> {
        backend::device_name(backend)
    }

    fn device_uuid(&self, backend: Backend) -> Option<String> {
        backend::device_uuid(backend)
    }

    fn format_support(&self, backend: Backend) -> Vec<(Format, Support)> {
        backend::format_support(backend)
    }

    fn peer_name(&self, command: &[String], give_up: &dyn Fn() -> bool) -> Result<Option<String>, RunError> {
        let about = Peer::about_of(command, give_up).map_err(|error| RunError::Input(error.to_string()))?;
        Ok(about.map(|about| about.name))
    }
}
