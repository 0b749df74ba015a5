//! Allowlist of the candidate kernels that passed their check on this device.

use mantissa_core::{Backend, KernelCheck, UNCHECKED_KERNELS, read_text};
use mantissa_precision::check;

use crate::{Inputs, kernel_folder::kernel_folder};

/// Maximum size of a file with check results, in bytes.
const MAX_CHECKS_BYTES: u64 = 16 << 20;

/// Restricts this process to the candidates that passed a check on this device. Without results of checks, or if they are ignored with
/// [`UNCHECKED_KERNELS`], permits all candidates and returns a warning. On backends other than CUDA, does nothing.
pub(crate) fn permit_checked(backend: Backend, inputs: &Inputs) -> Option<String> {
    if backend != Backend::Cuda {
        return None;
    }
    let unchecked = |reason: &str| Some(format!("the kernels were not checked on this device: {reason}"));
    if std::env::var_os(UNCHECKED_KERNELS).is_some() {
        return unchecked(&format!("{UNCHECKED_KERNELS} is set"));
    }
    match read_checks(backend, inputs) {
        Some(checks) => {
            check::permit(checks.into_iter().flat_map(|check| check.passed));
            None
        }
        None => unchecked("no results of `mantissa check-kernels` found"),
    }
}

/// Returns the results of the checks for this device, driver and program.
fn read_checks(backend: Backend, inputs: &Inputs) -> Option<Vec<KernelCheck>> {
    let path = kernel_folder(backend, &inputs.cache).join(KernelCheck::FILE);
    let text = read_text(&path, MAX_CHECKS_BYTES).ok()?;
    serde_json::from_str(&text).ok()
}
