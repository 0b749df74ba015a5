//! Folder of the compiled kernels of a device.

use std::path::{Path, PathBuf};

use mantissa_core::{Backend, open_own_program};
use mantissa_precision::device;

/// Returns the kernel cache folder of this device and this exact program, below `cache`. Each build has its own folder, since two builds may
/// compile different kernels under the same name.
pub fn kernel_folder(backend: Backend, cache: &Path) -> PathBuf {
    let mut hasher = blake3::Hasher::new();
    hasher.update(device::kernel_identity(backend).as_bytes());
    // If this program's file cannot be read, its hash is left out. All such programs share a folder.
    let _ = open_own_program().and_then(|program| hasher.update_reader(program).map(drop));
    let id = hasher.finalize().to_hex();
    cache.join("kernels").join(&id[..16])
}
