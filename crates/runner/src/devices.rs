//! The backends of this build on this machine.

use mantissa_core::{Backend, Format, Gpu};
use mantissa_telemetry::gpus;
use mantissa_workloads::backend::{self, Support};

use crate::{RunError, fingerprint};

/// A backend, and what it offers here.
#[derive(Debug, Clone)]
pub struct BackendState {
    /// Which.
    pub backend: Backend,
    /// Why it cannot be used here, if so, in one line.
    pub unavailable: Option<String>,
    /// The device it would use.
    pub device: Option<String>,
    /// How it serves each format; empty where it cannot be used.
    pub formats: Vec<(Format, Support)>,
}

/// Every backend in the order of preference.
pub fn backends() -> Vec<BackendState> {
    let state = |&backend: &Backend| match backend::available(backend) {
        Ok(()) => BackendState {
            backend,
            unavailable: None,
            device: device(backend),
            formats: backend::format_support(backend),
        },
        Err(reason) => BackendState {
            backend,
            unavailable: Some(reason),
            device: None,
            formats: vec![],
        },
    };
    Backend::ALL.iter().map(state).collect()
}

/// What people call the device of a backend that can be used here.
fn device(backend: Backend) -> Option<String> {
    match backend {
        Backend::Flex => fingerprint(None).cpu,
        Backend::Cuda | Backend::Vulkan => backend::device_name(backend),
    }
}

/// The backend to use: the one asked for, or CUDA where it answers, or the CPU.
///
/// # Errors
/// [`RunError::Unavailable`] if the one that was asked for by name is not to be had.
pub fn choose_backend(asked: Option<Backend>) -> Result<Backend, RunError> {
    match asked {
        None if backend::available(Backend::Cuda).is_ok() => Ok(Backend::Cuda),
        None => Ok(Backend::Flex),
        Some(backend) => match backend::available(backend) {
            Ok(()) => Ok(backend),
            Err(reason) => Err(RunError::Unavailable { backend, reason }),
        },
    }
}

/// The GPU that a run on this backend uses. NVML gives the UUID by which workers and samplers find the very same one.
pub(crate) fn gpu(backend: Backend) -> Option<Gpu> {
    match backend {
        Backend::Flex => None,
        Backend::Vulkan => backend::device_name(backend).map(unknown_gpu),
        Backend::Cuda => {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            let uuid = backend::device_uuid(backend);
            chosen(uuid.as_deref(), gpus()).or_else(|| {
                // A slice of a GPU is not among NVML's devices, and yet NVML finds it by its UUID.
                let first = visible.as_deref().and_then(|visible| visible.split(',').next());
                let slice = first.filter(|first| first.starts_with("MIG-")).map(str::to_owned);
                backend::device_name(backend).map(|name| Gpu {
                    uuid: slice,
                    ..unknown_gpu(name)
                })
            })
        }
    }
}

fn unknown_gpu(name: String) -> Gpu {
    Gpu {
        name,
        uuid: None,
        memory_bytes: None,
        compute_capability: None,
        driver: None,
        cuda: None,
        sm_clock_max_hz: None,
        power_limit_watts: None,
        ecc: None,
        persistence: None,
    }
}

/// The GPU with the UUID that CUDA gives its first device. CUDA and NVML may count devices in another order, so that a
/// place in one list is none in the other.
fn chosen(uuid: Option<&str>, gpus: Vec<Gpu>) -> Option<Gpu> {
    gpus.into_iter()
        .find(|gpu| gpu.uuid.is_some() && gpu.uuid.as_deref() == uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Gpu> {
        let gpu = |name: &str, uuid: &str| Gpu {
            uuid: Some(uuid.into()),
            ..unknown_gpu(name.into())
        };
        vec![gpu("first", "GPU-aa11"), gpu("second", "GPU-bb22")]
    }

    #[test]
    fn the_device_is_found_by_its_uuid_and_by_nothing_else() {
        let name = |uuid| chosen(uuid, two()).map(|gpu| gpu.name);
        assert_eq!(name(Some("GPU-bb22")).as_deref(), Some("second"));
        assert_eq!(name(Some("GPU-cc33")), None);
        assert_eq!(name(None), None);
        let without = vec![unknown_gpu("one".into())];
        assert_eq!(chosen(None, without).map(|gpu| gpu.name), None);
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert_eq!(choose_backend(Some(Backend::Flex)).unwrap(), Backend::Flex);
    }
}
