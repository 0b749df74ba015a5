//! Matmuls by NVIDIA's cuBLASLt, if it is found at run time: a reference for the throughput of burn's kernels.

use crate::{Compute, clock::Timed};

/// Matmul by cuBLASLt in the arithmetic of a setting, with its own stream and device memory.
#[derive(Debug)]
pub struct CublasMatmul(inner::Matmul);

/// Operands of a matmul, on the device.
#[derive(Debug)]
pub struct CublasOperands(inner::Operands);

impl CublasMatmul {
    /// Prepares the matmul of `[m, k]` and `[k, n]`. Operands and result are stored row by row, in the compute format of the setting.
    /// Returns `None` if the library is not found, or if `MANTISSA_WITHOUT` names `cublas`.
    ///
    /// # Errors
    /// Any error that the driver or the library reports.
    pub fn find(compute: &Compute, [m, n, k]: [usize; 3]) -> Option<Result<Self, String>> {
        inner::Matmul::find(compute, [m, n, k]).map(|product| product.map(Self))
    }

    /// Returns the version of the library, e.g. `13.1.0`.
    pub fn version(&self) -> String {
        self.0.version()
    }

    /// Copies operands to the device, rounded to the format.
    ///
    /// # Errors
    /// Any error that the driver reports.
    pub fn upload(&self, lhs: &[f64], rhs: &[f64]) -> Result<CublasOperands, String> {
        self.0.upload(lhs, rhs).map(CublasOperands)
    }

    /// Computes the product, waits for it, and measures its time with two CUDA events.
    ///
    /// # Errors
    /// Any error that the driver or the library reports.
    pub fn time(&mut self, operands: &CublasOperands) -> Result<Timed, String> {
        self.0.time(&operands.0)
    }

    /// Reads the last product, row by row.
    ///
    /// # Errors
    /// Any error that the driver reports.
    pub fn result(&self) -> Result<Vec<f64>, String> {
        self.0.result()
    }
}

#[cfg(not(feature = "cuda"))]
mod inner {
    use crate::{Compute, clock::Timed};

    #[derive(Debug)]
    pub(super) enum Matmul {}

    #[derive(Debug)]
    pub(super) enum Operands {}

    impl Matmul {
        pub(super) fn find(_: &Compute, _: [usize; 3]) -> Option<Result<Self, String>> {
            None
        }

        pub(super) fn version(&self) -> String {
            match *self {}
        }

        pub(super) fn upload(&self, _: &[f64], _: &[f64]) -> Result<Operands, String> {
            match *self {}
        }

        pub(super) fn time(&mut self, _: &Operands) -> Result<Timed, String> {
            match *self {}
        }

        pub(super) fn result(&self) -> Result<Vec<f64>, String> {
            match *self {}
        }
    }
}

#[cfg(feature = "cuda")]
mod inner {
    #![expect(unsafe_code, reason = "cuBLASLt has a C interface")]

    use std::{ffi::c_void, ptr, sync::Arc, time::Instant};

    use burn::tensor::{Bytes, Shape, TensorData};
    use cudarc::{
        cublaslt::{result as cublas, sys},
        driver::{
            CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, sys::CUevent_flags,
        },
    };
    use mantissa_core::{Accumulator, Format, MatmulPrecision};

    use crate::{Compute, clock::Timed, dtype};

    /// NVIDIA recommends 32 MiB for Hopper and 4 MiB for older GPUs.
    const WORKSPACE_BYTES: usize = 32 << 20;

    /// Formats of a matmul.
    struct Arithmetic {
        /// Format of operands and result.
        stored: Format,
        data: sys::cudaDataType,
        compute: sys::cublasComputeType_t,
        /// Type of `α` and `β` in cuBLASLt's `α · lhs · rhs + β · addend`.
        scale: sys::cudaDataType,
    }

    impl Arithmetic {
        fn from_compute(compute: &Compute) -> Self {
            use sys::{cublasComputeType_t as Type, cudaDataType_t as Data};

            let mode = compute.mode();
            let stored = compute.precision().compute();
            let (data, compute, scale) = match (stored, mode.precision, mode.accumulator) {
                (Format::F64, ..) => (Data::CUDA_R_64F, Type::CUBLAS_COMPUTE_64F, Data::CUDA_R_64F),
                (Format::F32 | Format::Tf32, precision, _) => {
                    let compute = match precision {
                        MatmulPrecision::Highest => Type::CUBLAS_COMPUTE_32F,
                        MatmulPrecision::High => Type::CUBLAS_COMPUTE_32F_FAST_TF32,
                        MatmulPrecision::Medium => Type::CUBLAS_COMPUTE_32F_FAST_16BF,
                    };
                    (Data::CUDA_R_32F, compute, Data::CUDA_R_32F)
                }
                (Format::Bf16, ..) => (Data::CUDA_R_16BF, Type::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F),
                (Format::F16, _, Accumulator::F32) => {
                    (Data::CUDA_R_16F, Type::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F)
                }
                (Format::F16, _, Accumulator::F16) => {
                    (Data::CUDA_R_16F, Type::CUBLAS_COMPUTE_16F, Data::CUDA_R_16F)
                }
            };
            Self {
                stored,
                data,
                compute,
                scale,
            }
        }

        /// Returns the bytes of `α` or `β`.
        fn factor(&self, value: f64) -> Vec<u8> {
            match self.scale {
                sys::cudaDataType_t::CUDA_R_64F => value.to_ne_bytes().to_vec(),
                sys::cudaDataType_t::CUDA_R_16F => half::f16::from_f64(value).to_ne_bytes().to_vec(),
                _ => (value as f32).to_ne_bytes().to_vec(),
            }
        }
    }

    #[derive(Debug)]
    pub(super) struct Matmul {
        library: Library,
        algorithm: sys::cublasLtMatmulAlgo_t,
        format: Format,
        /// Bytes of `α` = 1 and `β` = 0.
        factors: [Vec<u8>; 2],
        shape: [usize; 3],
        result: CudaSlice<u8>,
        workspace: CudaSlice<u8>,
        events: [CudaEvent; 2],
        stream: Arc<CudaStream>,
    }

    #[derive(Debug)]
    pub(super) struct Operands {
        lhs: CudaSlice<u8>,
        rhs: CudaSlice<u8>,
    }

    /// Objects that the library created, destroyed on drop.
    #[derive(Debug)]
    struct Library {
        handle: sys::cublasLtHandle_t,
        description: sys::cublasLtMatmulDesc_t,
        /// Layouts of rhs, lhs and the result, in this order. The library stores matrices column by column, and interprets a matrix
        /// stored row by row as its transpose. The transposed result is the product of the transposed operands in the opposite order.
        layouts: [sys::cublasLtMatrixLayout_t; 3],
    }

    impl Library {
        fn new(arithmetic: &Arithmetic, [m, n, k]: [usize; 3]) -> Result<Self, cublas::CublasError> {
            let mut library = Self {
                handle: cublas::create_handle()?,
                description: ptr::null_mut(),
                layouts: [ptr::null_mut(); 3],
            };
            library.description = cublas::create_matmul_desc(arithmetic.compute, arithmetic.scale)?;
            let shapes = [(n, k), (k, m), (n, m)];
            for (layout, (rows, columns)) in library.layouts.iter_mut().zip(shapes) {
                *layout =
                    cublas::create_matrix_layout(arithmetic.data, rows as u64, columns as u64, rows as i64)?;
            }
            Ok(library)
        }

        /// Returns the algorithm that the library's heuristic ranks first.
        fn algorithm(&self) -> Result<sys::cublasLtMatmulAlgo_t, cublas::CublasError> {
            let [rhs, lhs, result] = self.layouts;
            let preference = cublas::create_matmul_pref()?;
            let attribute =
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            // SAFETY: the handles were created by the library, and the value of the attribute is a `usize`.
            let found = unsafe {
                let bytes = ptr::from_ref(&WORKSPACE_BYTES).cast();
                cublas::set_matmul_pref_attribute(preference, attribute, bytes, size_of::<usize>()).and_then(
                    |()| {
                        let layouts = (rhs, lhs, result, result);
                        cublas::get_matmul_algo_heuristic(
                            self.handle,
                            self.description,
                            layouts.0,
                            layouts.1,
                            layouts.2,
                            layouts.3,
                            preference,
                        )
                    },
                )
            };
            // SAFETY: `preference` was created above and is not used again.
            unsafe { cublas::destroy_matmul_pref(preference)? };
            Ok(found?.algo)
        }
    }

    impl Drop for Library {
        fn drop(&mut self) {
            // SAFETY: each object was created by the library unless it is null, and is destroyed once.
            unsafe {
                for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                    let _ = cublas::destroy_matrix_layout(layout);
                }
                if !self.description.is_null() {
                    let _ = cublas::destroy_matmul_desc(self.description);
                }
                let _ = cublas::destroy_handle(self.handle);
            }
        }
    }

    impl Matmul {
        pub(super) fn find(compute: &Compute, shape: [usize; 3]) -> Option<Result<Self, String>> {
            // SAFETY: loads the library by name.
            let found =
                crate::cube::kernel_allowlist::is_enabled("cublas") && unsafe { sys::is_culib_present() };
            found.then(|| Self::new(&Arithmetic::from_compute(compute), shape))
        }

        fn new(arithmetic: &Arithmetic, shape: [usize; 3]) -> Result<Self, String> {
            let context = CudaContext::new(0).map_err(driver_error)?;
            let stream = context.new_stream().map_err(driver_error)?;
            let event = || {
                context
                    .new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
                    .map_err(driver_error)
            };
            let library = Library::new(arithmetic, shape).map_err(library_error)?;
            let [m, n, _] = shape;
            let bytes = m * n * arithmetic.stored.storage_bytes() as usize;
            Ok(Self {
                algorithm: library.algorithm().map_err(library_error)?,
                library,
                format: arithmetic.stored,
                factors: [arithmetic.factor(1.0), arithmetic.factor(0.0)],
                shape,
                result: stream.alloc_zeros(bytes).map_err(driver_error)?,
                workspace: stream.alloc_zeros(WORKSPACE_BYTES).map_err(driver_error)?,
                events: [event()?, event()?],
                stream,
            })
        }

        pub(super) fn version(&self) -> String {
            // SAFETY: the function has no arguments.
            let version = unsafe { sys::cublasLtGetVersion() };
            format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
        }

        pub(super) fn upload(&self, lhs: &[f64], rhs: &[f64]) -> Result<Operands, String> {
            let [m, n, k] = self.shape;
            let copy = |values: &[f64], rows, columns| {
                let data =
                    TensorData::new(values.to_vec(), [rows, columns]).convert_dtype(dtype(self.format));
                self.stream.clone_htod(data.as_bytes()).map_err(driver_error)
            };
            let operands = Operands {
                lhs: copy(lhs, m, k)?,
                rhs: copy(rhs, k, n)?,
            };
            self.stream.synchronize().map_err(driver_error)?;
            Ok(operands)
        }

        pub(super) fn time(&mut self, operands: &Operands) -> Result<Timed, String> {
            let begin = Instant::now();
            let stream = &self.stream;
            let [start, end] = &self.events;
            let [rhs_layout, lhs_layout, layout] = self.library.layouts;
            start.record(stream).map_err(driver_error)?;
            {
                let (rhs, _rhs) = operands.rhs.device_ptr(stream);
                let (lhs, _lhs) = operands.lhs.device_ptr(stream);
                let (result, _result) = self.result.device_ptr_mut(stream);
                let (workspace, _workspace) = self.workspace.device_ptr_mut(stream);
                // SAFETY: layouts and buffers have the sizes of the shape, and live until the stream is idle again.
                unsafe {
                    cublas::matmul(
                        self.library.handle,
                        self.library.description,
                        self.factors[0].as_ptr().cast(),
                        self.factors[1].as_ptr().cast(),
                        rhs as *const c_void,
                        rhs_layout,
                        lhs as *const c_void,
                        lhs_layout,
                        result as *const c_void,
                        layout,
                        result as *mut c_void,
                        layout,
                        &self.algorithm,
                        workspace as *mut c_void,
                        WORKSPACE_BYTES,
                        stream.cu_stream().cast(),
                    )
                }
                .map_err(library_error)?;
            }
            end.record(stream).map_err(driver_error)?;
            stream.synchronize().map_err(driver_error)?;
            let wall = begin.elapsed().as_secs_f64();
            let milliseconds = start.elapsed_ms(end).map_err(driver_error)?;
            Ok(Timed::new(Some(f64::from(milliseconds) * 1e-3), wall))
        }

        pub(super) fn result(&self) -> Result<Vec<f64>, String> {
            let [m, n, _] = self.shape;
            let bytes = self.stream.clone_dtoh(&self.result).map_err(driver_error)?;
            self.stream.synchronize().map_err(driver_error)?;
            let data = TensorData::from_bytes(
                Bytes::from_bytes_vec(bytes),
                Shape::new([m, n]),
                dtype(self.format),
            );
            Ok(data.iter::<f64>().collect())
        }
    }

    fn driver_error(error: cudarc::driver::DriverError) -> String {
        format!("CUDA driver error: {error}")
    }

    fn library_error(error: cublas::CublasError) -> String {
        format!("cuBLASLt error: {error}")
    }
}
