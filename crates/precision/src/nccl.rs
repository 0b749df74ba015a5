//! Sums over the GPUs of several processes by NVIDIA's NCCL, if it is found at run time.

use std::fmt;

use burn::{
    backend::Dispatch,
    tensor::{Device, Tensor},
};
use mantissa_core::Format;

use crate::{
    backend::PrecisionBackend,
    dtypes::dtype,
    tensor_ops::{primitive, round, tensor_of},
};

#[cfg(feature = "cuda")]
pub(crate) use inner::all_reduce;

/// Identifier of a group. One process creates it and sends it to the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NcclId([u8; Self::BYTES]);

impl NcclId {
    /// Number of bytes.
    pub const BYTES: usize = 128;

    /// Creates the identifier of a new group, which the calling process must join.
    ///
    /// # Errors
    /// The library is not found or reports an error.
    pub fn create() -> Result<Self, String> {
        inner::create_id().map(Self)
    }

    /// Creates an identifier from the bytes of another process.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to send to the other processes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Debug for NcclId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NcclId")
    }
}

/// Membership of this process in a group of processes with one GPU each. A process can join one group.
#[derive(Debug)]
pub struct Nccl {
    device: Device,
}

impl Nccl {
    /// Joins a group with the first CUDA device of this process. Waits until all processes have joined.
    ///
    /// # Errors
    /// The library is not found, or it or the driver reports an error.
    pub fn join(device: &Device, id: NcclId, rank: usize, ranks: usize) -> Result<Self, String> {
        inner::join(id.0, rank, ranks)?;
        Ok(Self {
            device: device.clone(),
        })
    }

    /// Returns the device of this process.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Rounds a vector to a format, sums it over all processes, and returns the sum in the dtype of the vector. Every process must call the
    /// function with vectors of one length. The vector stays on the device.
    ///
    /// # Errors
    /// Any error of this process that the device or the library reports. The other processes may then wait forever.
    pub fn sum(&self, vector: Tensor<1>, format: Format) -> Result<Tensor<1>, String> {
        let before = vector.dtype();
        let rounded = round(vector, dtype(format));
        let sum = tensor_of(Dispatch::sum_over_processes(primitive(rounded)));
        let sum = round(sum, before);
        // Execute the operations, because kernel fusion queues them. An error of the sum is the cause of later ones.
        let synced = self.device.sync();
        inner::error().map_or(Ok(()), Err)?;
        synced.map_err(|error| format!("{error:?}"))?;
        Ok(sum)
    }

    /// Leaves the group after the last sum. Every process must call the function, because it may wait for the others.
    ///
    /// # Errors
    /// Any error that the library reports.
    pub fn finish(self) -> Result<(), String> {
        inner::finish()
    }
}

/// Returns the version of NCCL, e.g. `2.27.3`.
///
/// # Errors
/// The library is not found or reports an error.
pub fn nccl_version() -> Result<String, String> {
    inner::version().map(version_text)
}

/// Formats 10000 · major + 100 · minor + patch; before version 2.9, 1000 · major + 100 · minor + patch.
fn version_text(number: u32) -> String {
    let major = if number < 10_000 { 1_000 } else { 10_000 };
    format!("{}.{}.{}", number / major, number % major / 100, number % 100)
}

#[cfg(not(feature = "cuda"))]
mod inner {
    const ABSENT: &str = "this build does not include the `cuda` feature, which NCCL needs";

    pub(super) fn version() -> Result<u32, String> {
        Err(ABSENT.to_owned())
    }

    pub(super) fn create_id() -> Result<[u8; super::NcclId::BYTES], String> {
        Err(ABSENT.to_owned())
    }

    pub(super) fn join(_: [u8; super::NcclId::BYTES], _: usize, _: usize) -> Result<(), String> {
        Err(ABSENT.to_owned())
    }

    pub(super) fn error() -> Option<String> {
        Some(ABSENT.to_owned())
    }

    pub(super) fn finish() -> Result<(), String> {
        Err(ABSENT.to_owned())
    }
}

#[cfg(feature = "cuda")]
mod inner {
    #![expect(unsafe_code, reason = "NCCL has a C interface")]

    use std::{
        error::Error as _,
        ffi::{CStr, c_char, c_int, c_void},
        ptr,
        sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    };

    use burn::{
        backend::{TensorMetadata, read_sync},
        tensor::DType,
    };
    use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};
    use cubecl::cuda::CudaRuntime;
    use cubecl_runtime::runtime::Runtime;
    use cudarc::driver::{CudaContext, CudaStream};
    use libloading::Library;

    use super::NcclId;

    /// Names of the library: that of its package, and that of its development package. `cudarc` finds only the latter.
    const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

    type Code = c_int;
    type Handle = *mut c_void;

    const SUCCESS: Code = 0;
    /// `ncclSum` of `ncclRedOp_t`.
    const SUM: c_int = 0;

    /// `ncclUniqueId`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct UniqueId([u8; NcclId::BYTES]);

    /// Functions of the library, as declared in `nccl.h` of NCCL 2.
    struct Functions {
        version: unsafe extern "C" fn(*mut c_int) -> Code,
        create_id: unsafe extern "C" fn(*mut UniqueId) -> Code,
        join: unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int) -> Code,
        all_reduce: unsafe extern "C" fn(
            *const c_void,
            *mut c_void,
            usize,
            c_int,
            c_int,
            Handle,
            *mut c_void,
        ) -> Code,
        destroy: unsafe extern "C" fn(Handle) -> Code,
        error_text: unsafe extern "C" fn(Code) -> *const c_char,
        last_error: unsafe extern "C" fn(Handle) -> *const c_char,
    }

    impl Functions {
        /// Returns the functions. Loads the library in the first call.
        fn get() -> Result<&'static Self, String> {
            static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
            FUNCTIONS.get_or_init(Self::load).as_ref().map_err(Clone::clone)
        }

        fn load() -> Result<Self, String> {
            let [name, other] = NAMES;
            // SAFETY: The initialization of the library has no requirements.
            let library =
                unsafe { Library::new(name).or_else(|error| Library::new(other).map_err(|_| error)) };
            let library = library.map_err(|error| {
                let reason = reason(&error);
                format!(
                    "NCCL was not found: {reason}; hint: install it (NVIDIA's package is `libnccl2`), or add its folder to \
                     `LD_LIBRARY_PATH`"
                )
            })?;
            // The functions are used until the process ends.
            let library: &'static Library = Box::leak(Box::new(library));
            // SAFETY: The fields have the types of the functions.
            unsafe {
                Ok(Self {
                    version: function(library, c"ncclGetVersion")?,
                    create_id: function(library, c"ncclGetUniqueId")?,
                    join: function(library, c"ncclCommInitRank")?,
                    all_reduce: function(library, c"ncclAllReduce")?,
                    destroy: function(library, c"ncclCommDestroy")?,
                    error_text: function(library, c"ncclGetErrorString")?,
                    last_error: function(library, c"ncclGetLastError")?,
                })
            }
        }

        /// Converts the code that a function returned. The library describes the last error of a group, or without a group, of the process.
        fn check(&self, function: &str, code: Code, group: Handle) -> Result<(), String> {
            if code == SUCCESS {
                return Ok(());
            }
            // SAFETY: The library returns null or a text that lives until its next error.
            let text = |text: *const c_char| unsafe {
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().trim().to_owned())
            };
            // SAFETY: The code was returned by the library, and the group is null or was created by it.
            let (error, last) = unsafe { (text((self.error_text)(code)), text((self.last_error)(group))) };
            let error = error.unwrap_or_else(|| format!("error {code}"));
            let last = last.filter(|last| !last.is_empty());
            Err(match last {
                Some(last) => format!("{function} failed: {error}: {last}"),
                None => format!("{function} failed: {error}"),
            })
        }
    }

    /// Returns a function of the library.
    ///
    /// # Safety
    /// `F` must be the type of the function.
    unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Result<F, String> {
        // SAFETY: The caller guarantees the type.
        let symbol = unsafe { library.get::<F>(name) };
        symbol
            .map(|symbol| *symbol)
            .map_err(|error| format!("NCCL is too old: {}", reason(&error)))
    }

    /// Returns the text of the system's loader, which an error has as its cause.
    fn reason(error: &libloading::Error) -> String {
        error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string)
    }

    pub(super) fn version() -> Result<u32, String> {
        let functions = Functions::get()?;
        let mut version = 0;
        // SAFETY: The function writes one integer.
        let code = unsafe { (functions.version)(&mut version) };
        functions.check("ncclGetVersion", code, ptr::null_mut())?;
        Ok(version.unsigned_abs())
    }

    pub(super) fn create_id() -> Result<[u8; NcclId::BYTES], String> {
        let functions = Functions::get()?;
        let mut id = UniqueId([0; NcclId::BYTES]);
        // SAFETY: The function writes an identifier.
        let code = unsafe { (functions.create_id)(&mut id) };
        functions.check("ncclGetUniqueId", code, ptr::null_mut())?;
        Ok(id.0)
    }

    /// Group that this process joined.
    static GROUP: Mutex<Option<Group>> = Mutex::new(None);

    struct Group {
        handle: Handle,
        /// Stream of the sums, in the primary context of the device, which cubecl uses too.
        stream: Arc<CudaStream>,
        /// First error, after which the group cannot be used. Operations of a backend cannot return it.
        error: Option<String>,
    }

    // SAFETY: NCCL allows calls from any thread, and the mutex prevents calls at the same time.
    unsafe impl Send for Group {}

    fn group() -> MutexGuard<'static, Option<Group>> {
        GROUP.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(id: [u8; NcclId::BYTES], rank: usize, ranks: usize) -> Result<(), String> {
        if group().is_some() {
            return Err("this process has already joined a group".to_owned());
        }
        let functions = Functions::get()?;
        // The context becomes that of this thread.
        let context = CudaContext::new(0).map_err(driver_error)?;
        let stream = context.new_stream().map_err(driver_error)?;
        let mut handle = ptr::null_mut();
        // SAFETY: The function writes a handle.
        let code = unsafe { (functions.join)(&mut handle, ranks as c_int, UniqueId(id), rank as c_int) };
        functions.check("ncclCommInitRank", code, ptr::null_mut())?;
        *group() = Some(Group {
            handle,
            stream,
            error: None,
        });
        Ok(())
    }

    pub(super) fn error() -> Option<String> {
        group().as_ref().and_then(|group| group.error.clone())
    }

    pub(super) fn finish() -> Result<(), String> {
        let functions = Functions::get()?;
        let Some(group) = group().take() else {
            return Ok(());
        };
        group.stream.context().bind_to_thread().map_err(driver_error)?;
        // SAFETY: The handle was created by the library and is not used again.
        let code = unsafe { (functions.destroy)(group.handle) };
        functions.check("ncclCommDestroy", code, ptr::null_mut())
    }

    /// Replaces a tensor by its sum over the group. Stores an error in the group.
    pub(crate) fn all_reduce(tensor: CubeTensor) -> CubeTensor {
        let tensor = into_contiguous(tensor);
        // The sum replaces the values in memory, which must not belong to another tensor.
        let tensor = if tensor.can_mut() { tensor } else { tensor.copy() };
        let mut group = group();
        let group = group
            .as_mut()
            .unwrap_or_else(|| unreachable!("a process sums only after it joined a group"));
        if group.error.is_none() {
            group.error = group.sum(&tensor).err();
        }
        tensor
    }

    impl Group {
        /// Replaces the values of a tensor in memory. Waits for the result.
        fn sum(&self, tensor: &CubeTensor) -> Result<(), String> {
            let functions = Functions::get()?;
            // Values of `ncclDataType_t`.
            let data_type = match tensor.dtype {
                DType::F16 => 6,
                DType::F32 => 7,
                DType::F64 => 8,
                DType::BF16 => 9,
                dtype => return Err(format!("NCCL does not sum values of the type {dtype:?}")),
            };
            let client = &tensor.client;
            let memory = client
                .get_resource::<<CudaRuntime as Runtime>::Server>(tensor.handle.clone())
                .map_err(|error| format!("{error:?}"))?;
            // NCCL has its own stream, so the kernels that compute the tensor must have finished.
            read_sync(client.sync()).map_err(|error| format!("{error:?}"))?;
            self.stream.context().bind_to_thread().map_err(driver_error)?;
            let pointer: *mut c_void = ptr::with_exposed_provenance_mut(memory.resource().ptr as usize);
            let count = tensor.shape().num_elements();
            // SAFETY: The memory has `count` values of the type, stays allocated while `memory` exists, and no kernel uses it.
            let code = unsafe {
                (functions.all_reduce)(
                    pointer,
                    pointer,
                    count,
                    data_type,
                    SUM,
                    self.handle,
                    self.stream.cu_stream().cast(),
                )
            };
            functions.check("ncclAllReduce", code, self.handle)?;
            self.stream.synchronize().map_err(driver_error)
        }
    }

    fn driver_error(error: cudarc::driver::DriverError) -> String {
        format!("CUDA driver error: {error}")
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::Backend;
    use mantissa_testing::is_available;

    use super::*;
    use crate::device;

    #[test]
    fn versions_are_formatted() {
        assert_eq!(
            [22_703, 20_900, 2_804].map(version_text),
            ["2.27.3", "2.9.0", "2.8.4"]
        );
    }

    /// Needs a GPU and NCCL.
    #[test]
    fn a_group_of_one_process_only_rounds() {
        let found = device::available(Backend::Cuda).and_then(|()| nccl_version().map(drop));
        if !is_available("nccl", found) {
            return;
        }
        let device = device::open(Backend::Cuda, true);
        let nccl = Nccl::join(&device, NcclId::create().unwrap(), 0, 1).unwrap();
        let values = [1.0, -0.0, 1.0 + 2f32.powi(-7), 1.0 + 2f32.powi(-20), 1e-3, -3e38];
        for format in [Format::F64, Format::F32, Format::Bf16, Format::F16] {
            let vector = Tensor::<1>::from_floats(values, &device);
            // The tensor that is summed may not change.
            let sum = nccl.sum(vector.clone(), format).unwrap();
            let bits = |vector: Tensor<1>| -> Vec<u32> {
                let data = vector.into_data();
                data.iter::<f32>().map(f32::to_bits).collect()
            };
            let expected = values.map(|value| format.round(f64::from(value)).value as f32);
            assert_eq!(bits(sum), expected.map(f32::to_bits), "{format}");
            assert_eq!(bits(vector), values.map(f32::to_bits), "{format}");
        }
        nccl.finish().unwrap();
    }
}
