//! Detection of available devices and their capabilities. Avoids or catches the panics of burn and cubecl.

use std::sync::OnceLock;

use burn::{backend::DTypeUsage, tensor::Device};
use mantissa_core::{Backend, Format, Support};

pub use crate::kernel_cache::{KernelCache, load_kernels};
pub use crate::stream::run_on_stream_thread;
use crate::{clock::Window, compiler_error::compiler_errors, dtypes::dtype};

/// Opens the first device of a backend, with or without kernel fusion. Call it only if [`available`] succeeds.
///
/// Fusion applies to the whole process, because burn registers its fusion optimizations per process. Without fusion, this function removes
/// them, and every operation is a separate kernel.
///
/// # Panics
/// If another value of `fusion` was used in this process before.
pub fn open(backend: Backend, fusion: bool) -> Device {
    match backend {
        Backend::Flex => Device::flex(),
        #[cfg(feature = "cuda")]
        Backend::Cuda => open_with_fusion(fusion, || Device::cuda(0)),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => {
            open_with_fusion(fusion, || Device::vulkan(burn::tensor::DeviceKind::DefaultDevice))
        }
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        backend => unreachable!("`{backend}` is not available in this build"),
    }
}

/// Opens a device with fusion enabled or disabled.
#[cfg(feature = "cubecl")]
fn open_with_fusion(fusion: bool, device: impl FnOnce() -> Device) -> Device {
    use burn_cubecl::fusion as registry;

    static FUSION: OnceLock<bool> = OnceLock::new();
    let active = *FUSION.get_or_init(|| {
        if !fusion {
            for name in registry::BUILTIN_NAMES {
                registry::remove(name).expect("fusion is configured before the first operation");
            }
        }
        fusion
    });
    assert_eq!(active, fusion, "fusion cannot change within a process");
    device()
}

/// Runs work in which kernels are compiled and autotuned, but launched only by the autotuner. Results are undefined. Also returns the
/// compiler error of the last kernel that failed to compile. Nothing else reports this error, because the work launches no kernel.
pub fn compile_only<T>(device: &Device, work: impl FnOnce() -> T) -> (T, Option<String>) {
    // A profiling window becomes invalid if a kernel fails to compile.
    let window = Window::open(device).ok().flatten();
    let result = {
        #[cfg(feature = "cubecl")]
        let _dry_run = cubecl::dry_run::DryRun::new();
        work()
    };
    let invalid = window.and_then(|window| window.close().err());
    let rejected = invalid.and_then(|error| compiler_errors(&error).pop());
    (result, rejected)
}

/// Memory of a device's allocator, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocatorUsage {
    /// Reserved on the device.
    pub reserved: u64,
    /// Allocated to tensors.
    pub in_use: u64,
}

/// Returns the allocator usage of a device over all its streams, or `None` if it does not have an allocator.
pub fn allocator_usage(device: &Device) -> Option<AllocatorUsage> {
    let usage = device.memory_pool_usage()?;
    Some(AllocatorUsage {
        reserved: usage.bytes_reserved,
        in_use: usage.bytes_in_use,
    })
}

/// Submits queued operations to the device without waiting for them.
///
/// # Errors
/// Any error that the device reports.
pub fn submit(device: &Device) -> Result<(), String> {
    device.flush().map_err(|error| format!("{error:?}"))
}

/// Checks that a backend can run on this machine.
///
/// # Errors
/// If the backend is not in this build, or the machine lacks its library or device. The error is one line with the
/// reason.
pub fn available(backend: Backend) -> Result<(), String> {
    match backend {
        Backend::Flex => Ok(()),
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::available(),
        #[cfg(not(feature = "cuda"))]
        Backend::Cuda => {
            Err("this build does not include the `cuda` feature: build with `--features cuda`".into())
        }
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => vulkan::available(),
        #[cfg(not(feature = "vulkan"))]
        Backend::Vulkan => {
            Err("this build does not include the `vulkan` feature: build with `--features vulkan`".into())
        }
    }
}

/// Returns the name of the first device of a backend. Call it only if [`available`] succeeds.
pub fn device_name(backend: Backend) -> Option<String> {
    match backend {
        Backend::Flex => None,
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::name(),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => vulkan::name(),
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        _ => None,
    }
}

/// Returns the UUIDs of the devices of a backend in NVML's notation, in the order of the driver, up to the first device without one. CUDA and
/// NVML may number devices differently. Call it only if [`available`] succeeds.
pub fn device_uuids(backend: Backend) -> Vec<String> {
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::uuids(),
        _ => vec![],
    }
}

/// Returns the bytes of the last-level cache of the first device of a backend, if the system or the driver reports it.
/// Call it only if [`available`] succeeds.
pub fn last_level_cache(backend: Backend) -> Option<u64> {
    match backend {
        Backend::Flex => cpu_cache(),
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::cache(),
        _ => None,
    }
}

/// Returns the size of the largest cache that Linux lists for the first core.
fn cpu_cache() -> Option<u64> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |cache: std::fs::DirEntry| {
        let text = std::fs::read_to_string(cache.path().join("size")).ok()?;
        let kib: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kib << 10)
    };
    caches.filter_map(|cache| size(cache.ok()?)).max()
}

/// Returns a key that identifies the compiled kernels of a device: its name and the CUDA version of its driver. Does
/// not initialize cubecl: [`load_kernels`] can still be called afterwards.
pub fn kernel_identity(backend: Backend) -> String {
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::identity(),
        _ => backend.to_string(),
    }
}

/// Returns the support of each format on the first device of a backend. Call it only if [`available`] succeeds.
pub fn format_support(backend: Backend) -> Vec<(Format, Support)> {
    let support = |format| match backend {
        // The CPU multiplies f64 and f32. It stores 16-bit formats and widens them to compute.
        Backend::Flex if matches!(format, Format::F64 | Format::F32) => Support::Native,
        Backend::Flex => Support::Emulated,
        #[cfg(feature = "cuda")]
        Backend::Cuda => gpu_support(&cubecl::Device::Cuda(Default::default()), format),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => gpu_support(&vulkan::device(), format),
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        _ => Support::Absent,
    };
    Format::ALL
        .iter()
        .map(|&format| (format, support(format)))
        .collect()
}

/// Returns true if a device can store and compute with tensors of a format.
pub fn supports(format: Format, device: &Device) -> bool {
    use burn::backend::{Backend, Dispatch};

    let usage = Dispatch::dtype_usage(device.as_dispatch(), dtype(format));
    usage.contains(DTypeUsage::Storage) && usage.contains(DTypeUsage::Arithmetic)
}

#[cfg(feature = "cubecl")]
fn gpu_support(device: &cubecl::Device, format: Format) -> Support {
    let native = match format {
        // TF32 exists only inside matrix units and is not a storage format of any device.
        Format::Tf32 => crate::cube::multiplies_tf32(device),
        _ => supports(format, &Device::new(device.clone())),
    };
    match (native, format) {
        (true, _) => Support::Native,
        (false, Format::Tf32) => Support::Emulated,
        (false, _) => Support::Absent,
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use cudarc::driver::result;

    /// Checks that each library is present before it is used, because burn's `device_count` panics if one is missing.
    pub(super) fn available() -> Result<(), String> {
        // SAFETY: both functions load a library by name and unload it, and affect nothing else in the process.
        #[expect(unsafe_code, reason = "cudarc declares its library lookup as unsafe")]
        let (driver, compiler) = unsafe {
            (
                cudarc::driver::sys::is_culib_present(),
                cudarc::nvrtc::sys::is_culib_present(),
            )
        };
        if !driver {
            return Err("cannot find the NVIDIA driver library (libcuda): install the NVIDIA driver".into());
        }
        match cudarc::driver::CudaContext::device_count() {
            Ok(0) => return Err("the NVIDIA driver reports no device: check `nvidia-smi` and `CUDA_VISIBLE_DEVICES`, which may hide devices".into()),
            Ok(_) => {}
            Err(error) => return Err(format!("cannot initialize the NVIDIA driver: {error}")),
        }
        if !compiler {
            return Err("cannot find the CUDA run-time compiler (libnvrtc): add the `lib64` folder of the CUDA toolkit to `LD_LIBRARY_PATH`".into());
        }
        crate::toolkit::check_toolkit()
    }

    /// Returns the first device that the driver lists, without creating a context, which would allocate memory on it.
    fn first() -> Option<cudarc::driver::sys::CUdevice> {
        result::init().ok()?;
        result::device::get(0).ok()
    }

    pub(super) fn name() -> Option<String> {
        result::device::get_name(first()?).ok()
    }

    pub(super) fn uuids() -> Vec<String> {
        let count = result::init().and_then(|()| result::device::get_count());
        (0..count.unwrap_or(0)).map_while(uuid).collect()
    }

    fn uuid(ordinal: i32) -> Option<String> {
        let device = result::device::get(ordinal).ok()?;
        let bytes = result::device::get_uuid(device).ok()?.bytes;
        let digits: String = bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
        let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Some(format!("GPU-{a}-{b}-{c}-{d}-{e}"))
    }

    pub(super) fn cache() -> Option<u64> {
        let size = cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        // SAFETY: the device is one that the driver listed, and the driver writes one integer.
        #[expect(unsafe_code, reason = "the CUDA driver has a C interface")]
        let bytes = unsafe { result::device::get_attribute(first()?, size) };
        bytes.ok()?.try_into().ok().filter(|bytes| *bytes > 0)
    }

    pub(super) fn identity() -> String {
        if available().is_err() {
            return "none".to_owned();
        }
        let mut version = 0;
        // SAFETY: the library is loaded, and the call writes one integer.
        #[expect(unsafe_code, reason = "the CUDA driver has a C interface")]
        unsafe {
            let _ = cudarc::driver::sys::cuDriverGetVersion(&mut version);
        }
        format!("{} CUDA {version}", name().unwrap_or_default())
    }
}

#[cfg(feature = "vulkan")]
mod vulkan {
    use cubecl::Device;

    /// Returns the device that [`super::open`] opens.
    pub(super) fn device() -> Device {
        let device = burn::tensor::Device::vulkan(burn::tensor::DeviceKind::DefaultDevice);
        match device.as_dispatch() {
            burn::backend::DispatchDevice::Cube(device) => device.clone(),
            other => unreachable!("expected a CubeCL device, found {other:?}"),
        }
    }

    /// cubecl panics if there is no adapter. The panic is caught, and its message is not printed.
    pub(super) fn available() -> Result<(), String> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let client = std::panic::catch_unwind(|| device().client());
        std::panic::set_hook(hook);
        client
            .map(drop)
            .map_err(|_| "no Vulkan adapter is available".into())
    }

    pub(super) fn name() -> Option<String> {
        Some(crate::cube::name(&device()))
    }
}
