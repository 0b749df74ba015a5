//! Stand-in for [cubecl-llvm](https://crates.io/crates/cubecl-llvm) 0.11.3, which compiles kernels with LLVM.
//!
//! cubecl-cuda 0.11.3 contains two compilers of kernels, NVRTC and LLVM, and its feature `cpp` selects NVRTC. Even with
//! `cpp` it links LLVM, which a build script of the real cubecl-llvm downloads from GitHub. Mantissa enables `cpp` and
//! does not need LLVM. Therefore `[patch.crates-io]` in the workspace's `Cargo.toml` replaces cubecl-llvm by this
//! crate. `docs/upstream/cubecl-cuda-optional-llvm.md` proposes a change of cubecl-cuda that would make this crate
//! unnecessary.
//!
//! This crate declares only the types and methods that cubecl-cuda uses. It is not a compiler:
//! [`PlironCompiler::compile`] always returns an error, and [`NvptxModule`] has no values.

use core::convert::Infallible;
use core::ffi::c_char;

use cubecl_core::CompilationError;
use cubecl_core::environment::backtrace::BackTrace;
use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::{BufferIOAttr, KernelDefinition};

/// PTX, the assembly language of NVIDIA GPUs.
pub mod nvptx {
    /// Versions of PTX.
    pub mod ptx_version {
        /// Version of PTX that the compiler emits; it has no values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PtxVersion {}

        impl PtxVersion {
            /// Returns `None` for every version of the driver: this crate emits no PTX.
            pub fn for_driver(_driver_version: i32) -> Option<Self> {
                None
            }
        }

        impl core::fmt::Display for PtxVersion {
            fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {}
            }
        }
    }
}

/// Code that all targets share.
pub mod shared {
    /// Features of a device that the compiler supports.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// Kinds of GPU that the compiler emits code for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA GPUs.
            Nvptx,
        }

        /// Leaves the properties as they are. cubecl-cuda calls this function only without its feature `cpp`,
        /// and then every compilation fails.
        pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}
    }
}

/// Targets of the compiler.
#[derive(Clone, Copy, Debug)]
pub enum LlvmTarget {
    /// NVIDIA GPUs.
    Nvptx,
}

/// Compiler whose compilations fail.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// Target of the compiler.
    pub target: LlvmTarget,
}

impl PlironCompiler {
    /// Returns an error.
    ///
    /// # Errors
    ///
    /// Always [`CompilationError::Generic`].
    pub fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "Mantissa is built without LLVM: enable the feature `cpp` of cubecl-cuda".to_owned(),
            backtrace: BackTrace::capture(),
        })
    }

    /// Returns the name of the language that the compiler emits.
    pub fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

/// Options of a compilation; [`PlironCompiler`] reads none of them.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// Architecture of an AMD GPU; always `None`.
    pub arch: Option<Infallible>,
    /// Architecture of an NVIDIA GPU.
    pub sm_arch: Option<SmArch>,
    /// Version of PTX; always `None`.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// True if scalar arguments are grid constants.
    pub grid_constants: bool,
}

/// Results of a compilation; it has no values.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// A kernel for NVIDIA GPUs.
    NvptxCode(NvptxModule),
}

/// A compiled kernel; it has no values.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// Code in PTX, with a final zero.
    pub ptx: Vec<c_char>,
    /// Code in LLVM's intermediate representation.
    pub ir: String,
    /// Bytes of shared memory that a launch reserves.
    pub shared_memory_size: usize,
    /// Use of each buffer by the kernel.
    pub io: Vec<BufferIOAttr>,
    /// Rules out values of this type.
    pub never: Infallible,
}
