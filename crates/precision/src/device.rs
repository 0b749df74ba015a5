//! What this machine can execute, found out without waking a panic in the layers below.

use burn::tensor::backend::{Backend as BurnBackend, DTypeUsage};
use mantissa_core::{Backend, Format, Support};

use crate::compute::dtype;

/// The CPU backend.
pub type Flex = burn_flex::Flex;

/// CUDA, each operation a kernel of its own.
#[cfg(feature = "cuda")]
pub type CudaPlain = burn_cubecl::CubeBackend<cubecl::cuda::CudaRuntime, f32, i32, u8>;
/// CUDA with kernel fusion.
#[cfg(feature = "cuda")]
pub type CudaFused = burn_cuda::Cuda;

/// Vulkan, each operation a kernel of its own.
#[cfg(feature = "vulkan")]
pub type VulkanPlain = burn_cubecl::CubeBackend<cubecl::wgpu::WgpuRuntime, f32, i32, u8>;
/// Vulkan with kernel fusion.
#[cfg(feature = "vulkan")]
pub type VulkanFused = burn_fusion::Fusion<VulkanPlain>;

/// Whether a backend can run here: `Err` holds one line that says what is missing.
///
/// # Errors
/// The backend is not in this build, or the machine lacks its library or device.
pub fn available(backend: Backend) -> Result<(), String> {
    match backend {
        Backend::Flex => Ok(()),
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::available(),
        #[cfg(not(feature = "cuda"))]
        Backend::Cuda => Err("this build has no `cuda` feature".into()),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => vulkan::available(),
        #[cfg(not(feature = "vulkan"))]
        Backend::Vulkan => Err("this build has no `vulkan` feature".into()),
    }
}

/// Name of the first device of a backend. Call it only if [`available`] says so.
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

/// The UUID of the first device of a backend, as NVML writes it: what CUDA puts first need not be NVML's first. Call it
/// only if [`available`] says so.
pub fn device_uuid(backend: Backend) -> Option<String> {
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::uuid(),
        _ => None,
    }
}

/// Bytes of the last-level cache of the first device of a backend, where the system or the driver says it. Call it only if
/// [`available`] says so.
pub fn last_level_cache(backend: Backend) -> Option<u64> {
    match backend {
        Backend::Flex => cpu_cache(),
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::cache(),
        _ => None,
    }
}

/// The largest cache that Linux lists for the first core.
fn cpu_cache() -> Option<u64> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |cache: std::fs::DirEntry| {
        let text = std::fs::read_to_string(cache.path().join("size")).ok()?;
        let kib: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kib << 10)
    };
    caches.filter_map(|cache| size(cache.ok()?)).max()
}

/// What tells the compiled kernels of one device from those of another: its name and the CUDA version of its driver.
/// Wakes nothing that [`keep_kernels`] would come too late for.
pub fn kernel_identity(backend: Backend) -> String {
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => cuda::identity(),
        _ => backend.to_string(),
    }
}

/// Keeps compiled kernels and the autotuner's choices in a folder. What is kept there names neither the device nor the
/// build, so each pair of them needs a folder of its own. To be called before the first use of a GPU.
#[cfg(feature = "cubecl")]
pub fn keep_kernels(folder: &std::path::Path) {
    use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig, cache::CacheConfig};

    let cache = || CacheConfig::File(folder.to_owned());
    let mut config = CubeClRuntimeConfig::default();
    config.autotune.cache = cache();
    config.compilation.cache = Some(cache());
    CubeClRuntimeConfig::set(config.override_from_env());
}

/// Without a GPU backend there is nothing to keep.
#[cfg(not(feature = "cubecl"))]
pub fn keep_kernels(_folder: &std::path::Path) {}

/// How the first device of a backend computes in each format. Call it only if [`available`] says so.
pub fn format_support(backend: Backend) -> Vec<(Format, Support)> {
    let support = |format| match backend {
        // The CPU multiplies f64 and f32; it stores the halves and computes on them widened.
        Backend::Flex if matches!(format, Format::F64 | Format::F32) => Support::Native,
        Backend::Flex => Support::Emulated,
        #[cfg(feature = "cuda")]
        Backend::Cuda => on_device::<cubecl::cuda::CudaRuntime>(format),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => on_device::<cubecl::wgpu::WgpuRuntime>(format),
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        _ => Support::Absent,
    };
    Format::ALL
        .iter()
        .map(|&format| (format, support(format)))
        .collect()
}

/// Whether tensors of a format can be stored and computed with on a device.
pub fn supports<B: BurnBackend>(format: Format, device: &B::Device) -> bool {
    let usage = B::dtype_usage(device, dtype(format));
    usage.contains(DTypeUsage::Storage) && usage.contains(DTypeUsage::Arithmetic)
}

#[cfg(feature = "cubecl")]
fn on_device<R: burn_cubecl::CubeRuntime>(format: Format) -> Support {
    use cubecl::ir::{ElemType, FloatKind};

    let client = R::client(&Default::default());
    let native = if format == Format::Tf32 {
        // No device stores TF32: it exists inside matrix units only.
        let tf32 = ElemType::Float(FloatKind::TF32).into();
        let matmul = &client.properties().features.matmul;
        matmul
            .cmma
            .iter()
            .chain(&matmul.mma)
            .any(|unit| unit.a_type == tf32)
    } else {
        supports::<burn_cubecl::CubeBackend<R, f32, i32, u8>>(format, &Default::default())
    };
    match (native, format) {
        (true, _) => Support::Native,
        (false, Format::Tf32) => Support::Emulated,
        (false, _) => Support::Absent,
    }
}

#[cfg(feature = "cuda")]
pub(crate) mod cuda {
    use std::path::PathBuf;

    use cudarc::driver::result;

    /// burn's own `device_count` panics where a library is missing, so each is looked for first.
    pub(super) fn available() -> Result<(), String> {
        // SAFETY: both load a library by name and drop it again; nothing else of the process is touched.
        #[expect(unsafe_code, reason = "cudarc marks its look for a library as unsafe")]
        let (driver, compiler) = unsafe {
            (
                cudarc::driver::sys::is_culib_present(),
                cudarc::nvrtc::sys::is_culib_present(),
            )
        };
        if !driver {
            return Err("the NVIDIA driver library (libcuda) is not there: install the driver".into());
        }
        match cudarc::driver::CudaContext::device_count() {
            Ok(0) => return Err("the NVIDIA driver reports no device: see `nvidia-smi`, and whether `CUDA_VISIBLE_DEVICES` hides it".into()),
            Ok(_) => {}
            Err(error) => return Err(format!("the NVIDIA driver does not start: {error}")),
        }
        if !compiler {
            return Err("the CUDA run-time compiler (libnvrtc) is not on the library path: add the toolkit's `lib64` folder to `LD_LIBRARY_PATH`".into());
        }
        if !headers()
            .iter()
            .any(|path| path.join("include/cuda_fp16.h").exists())
        {
            return Err("the CUDA headers are not found: set `CUDA_PATH` to the toolkit".into());
        }
        Ok(())
    }

    /// The first device that the driver shows, without a context on it: that would take memory there.
    fn first() -> Option<cudarc::driver::sys::CUdevice> {
        result::init().ok()?;
        result::device::get(0).ok()
    }

    pub(super) fn name() -> Option<String> {
        result::device::get_name(first()?).ok()
    }

    pub(super) fn uuid() -> Option<String> {
        let bytes = result::device::get_uuid(first()?).ok()?.bytes;
        let digits: String = bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
        let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Some(format!("GPU-{a}-{b}-{c}-{d}-{e}"))
    }

    pub(super) fn cache() -> Option<u64> {
        let size = cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        // SAFETY: the device is one that the driver listed, and the driver writes one integer.
        #[expect(unsafe_code, reason = "the driver's own interface")]
        let bytes = unsafe { result::device::get_attribute(first()?, size) };
        bytes.ok()?.try_into().ok().filter(|bytes| *bytes > 0)
    }

    /// The context that cubecl computes in, made the calling thread's own.
    pub(crate) fn context() -> Result<cudarc::driver::sys::CUcontext, String> {
        let device = first().ok_or("the driver shows no device")?;
        // SAFETY: the device is one that the driver listed; its primary context is kept until the process ends.
        #[expect(unsafe_code, reason = "the driver's own interface")]
        unsafe {
            let context = result::primary_ctx::retain(device).map_err(|error| error.to_string())?;
            result::ctx::set_current(context).map_err(|error| error.to_string())?;
            Ok(context)
        }
    }

    pub(super) fn identity() -> String {
        if available().is_err() {
            return "none".to_owned();
        }
        let mut version = 0;
        // SAFETY: the library is there, and writes one integer.
        #[expect(unsafe_code, reason = "the driver's own interface")]
        unsafe {
            let _ = cudarc::driver::sys::cuDriverGetVersion(&mut version);
        }
        format!("{} CUDA {version}", name().unwrap_or_default())
    }

    /// Where the CUDA runtime of cubecl looks for headers.
    fn headers() -> Vec<PathBuf> {
        let fixed = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
        std::env::var_os("CUDA_PATH")
            .map(PathBuf::from)
            .into_iter()
            .chain(fixed)
            .collect()
    }
}

#[cfg(feature = "vulkan")]
mod vulkan {
    use cubecl::{Runtime, wgpu::WgpuRuntime};

    /// cubecl panics where no adapter answers; the panic is caught and its message kept off the terminal.
    pub(super) fn available() -> Result<(), String> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let client = std::panic::catch_unwind(|| WgpuRuntime::client(&Default::default()));
        std::panic::set_hook(hook);
        client.map(drop).map_err(|_| "no Vulkan adapter answers".into())
    }

    pub(super) fn name() -> Option<String> {
        let client = WgpuRuntime::client(&Default::default());
        Some(WgpuRuntime::name(&client).to_owned())
    }
}
