//! Backends of this build on this machine.

use mantissa_core::{Backend, Format, Gpu, Support};
use mantissa_telemetry::gpus;

use crate::{Engine, RunError, fingerprint};

/// Backend with its availability and its device.
#[derive(Debug, Clone)]
pub struct BackendState {
    /// Backend.
    pub backend: Backend,
    /// Reason why the backend is not available, on one line.
    pub unavailable: Option<String>,
    /// Name of the backend's first device.
    pub device: Option<String>,
    /// Support of the device for each format; empty if the backend is not available.
    pub formats: Vec<(Format, Support)>,
}

/// Returns the state of every backend, in the order of [`Backend::ALL`].
pub fn backends(engine: &dyn Engine) -> Vec<BackendState> {
    let state = |&backend: &Backend| match engine.available(backend) {
        Ok(()) => BackendState {
            backend,
            unavailable: None,
            device: device_name(engine, backend),
            formats: engine.format_support(backend),
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

/// Returns the name of the device of an available backend.
fn device_name(engine: &dyn Engine, backend: Backend) -> Option<String> {
    match backend {
        Backend::Flex => fingerprint(None).cpu,
        Backend::Cuda | Backend::Vulkan => engine.device_name(backend),
    }
}

/// Returns the requested backend. Without a request, returns CUDA if it is available, otherwise the CPU.
///
/// # Errors
/// [`RunError::Unavailable`] if the requested backend is not available.
pub fn choose_backend(engine: &dyn Engine, requested: Option<Backend>) -> Result<Backend, RunError> {
    match requested {
        None if engine.available(Backend::Cuda).is_ok() => Ok(Backend::Cuda),
        None => Ok(Backend::Flex),
        Some(backend) => match engine.available(backend) {
            Ok(()) => Ok(backend),
            Err(reason) => Err(RunError::Unavailable { backend, reason }),
        },
    }
}

/// Returns the GPU for a run on this backend; `None` on the CPU. Workers and samplers identify the GPU by its NVML UUID.
pub(crate) fn gpu(engine: &dyn Engine, backend: Backend) -> Option<Gpu> {
    match backend {
        Backend::Flex => None,
        Backend::Vulkan => engine.device_name(backend).map(unknown_gpu),
        Backend::Cuda => {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            let uuids = engine.device_uuids(backend);
            gpu_by_uuid(uuids.first().map(String::as_str), gpus()).or_else(|| {
                // NVML does not list MIG slices as devices but finds them by UUID.
                let first = visible.as_deref().and_then(|visible| visible.split(',').next());
                let slice = first.filter(|first| first.starts_with("MIG-")).map(str::to_owned);
                engine.device_name(backend).map(|name| Gpu {
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

/// Returns the GPU with the UUID of the first CUDA device. CUDA and NVML may list devices in different orders, so
/// indices cannot be compared.
fn gpu_by_uuid(uuid: Option<&str>, gpus: Vec<Gpu>) -> Option<Gpu> {
    gpus.into_iter()
        .find(|gpu| gpu.uuid.is_some() && gpu.uuid.as_deref() == uuid)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use mantissa_core::Cell;

    use super::*;
    use crate::KernelToCheck;

    fn two_gpus() -> Vec<Gpu> {
        let gpu = |name: &str, uuid: &str| Gpu {
            uuid: Some(uuid.into()),
            ..unknown_gpu(name.into())
        };
        vec![gpu("first", "GPU-aa11"), gpu("second", "GPU-bb22")]
    }

    #[test]
    fn the_gpu_is_found_only_by_its_uuid() {
        let name = |uuid| gpu_by_uuid(uuid, two_gpus()).map(|gpu| gpu.name);
        assert_eq!(name(Some("GPU-bb22")).as_deref(), Some("second"));
        assert_eq!(name(Some("GPU-cc33")), None);
        assert_eq!(name(None), None);
        let without = vec![unknown_gpu("one".into())];
        assert_eq!(gpu_by_uuid(None, without).map(|gpu| gpu.name), None);
    }

    /// Machine with these backends.
    struct Machine(&'static [Backend]);

    impl Engine for Machine {
        fn kernels_to_check(&self, _: &Cell) -> Vec<KernelToCheck> {
            vec![]
        }

        fn kernel_folder(&self, _: Backend, cache: &Path) -> PathBuf {
            cache.to_owned()
        }

        fn available(&self, backend: Backend) -> Result<(), String> {
            match self.0.contains(&backend) {
                true => Ok(()),
                false => Err("no such device".to_owned()),
            }
        }

        fn device_name(&self, _: Backend) -> Option<String> {
            None
        }

        fn device_uuids(&self, _: Backend) -> Vec<String> {
            vec![]
        }

        fn nccl_version(&self) -> Result<String, String> {
            Err("no NCCL".to_owned())
        }

        fn format_support(&self, _: Backend) -> Vec<(Format, Support)> {
            vec![]
        }

        fn peer_name(&self, _: &[String], _: &dyn Fn() -> bool) -> Result<Option<String>, RunError> {
            Ok(None)
        }
    }

    #[test]
    fn cuda_is_the_default_and_a_requested_backend_is_kept() {
        let with_gpu = Machine(&[Backend::Flex, Backend::Cuda]);
        let without = Machine(&[Backend::Flex]);
        assert_eq!(choose_backend(&with_gpu, None).unwrap(), Backend::Cuda);
        assert_eq!(choose_backend(&without, None).unwrap(), Backend::Flex);
        let named =
            |machine, backend| choose_backend(machine, Some(backend)).map_err(|error| error.to_string());
        assert_eq!(named(&with_gpu, Backend::Flex), Ok(Backend::Flex));
        let error = named(&without, Backend::Cuda).unwrap_err();
        assert!(
            error.contains("`cuda`") && error.contains("no such device"),
            "{error}"
        );
    }
}
