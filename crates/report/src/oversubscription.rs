//! Detection of more threads than cores.

use mantissa_core::{Backend, Record};

/// Returns the number of threads of a process, or of all its ranks, and the number of cores if there are more threads than cores. Returns
/// `None` on a GPU: each device is a GPU there, and `threads` has no effect.
pub(crate) fn oversubscription(record: &Record) -> Option<(u64, u64)> {
    let setting = &record.cell.setting;
    if setting.backend() != Backend::Flex {
        return None;
    }
    let threads = u64::from(setting.devices()) * u64::from(setting.threads().unwrap_or(1));
    let cores = u64::from(record.fingerprint.cores);
    (cores > 0 && threads > cores).then_some((threads, cores))
}
