//! Persistent cache of compiled kernels and autotuning results.
//!
//! cubecl stores kernels and results in a database, or in memory if no database opens. Mantissa is built without the database
//! (`crates/turso`), so this module loads the values from files and saves them to files.
//!
//! A process adds one file for the kernels that it compiled (`*.kernels`) and one for its autotuning results (`*.tuned`), and never
//! changes a file. Several processes can therefore use a folder at the same time. A value is read from a file when it is first needed.

#[cfg(feature = "cubecl")]
mod file;
#[cfg(feature = "cubecl")]
mod store;
#[cfg(all(test, feature = "cubecl"))]
mod testing;

#[cfg(not(feature = "cubecl"))]
use std::path::Path;

#[cfg(feature = "cubecl")]
pub use store::{KernelCache, load_kernels};

/// Placeholder for the kernel cache in a build without a GPU backend.
#[cfg(not(feature = "cubecl"))]
#[derive(Debug)]
pub struct KernelCache;

/// Does nothing, because a build without a GPU backend has no kernels.
#[cfg(not(feature = "cubecl"))]
pub fn load_kernels(_folder: &Path) -> KernelCache {
    KernelCache
}

#[cfg(not(feature = "cubecl"))]
impl KernelCache {
    /// Does nothing.
    pub fn save(self) -> Vec<String> {
        vec![]
    }

    /// Does nothing.
    pub fn save_kernels(self) -> Vec<String> {
        vec![]
    }

    /// Returns an empty list.
    pub fn rejected(&self) -> Vec<String> {
        vec![]
    }
}
