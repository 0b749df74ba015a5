//! Detection of more threads than cores.

use mantissa_core::Record;

/// Returns the number of threads of a process, or of all its ranks, and the number of cores if there are more threads than cores.
pub(crate) fn oversubscription(record: &Record) -> Option<(u64, u64)> {
    let setting = &record.cell.setting;
    let threads = u64::from(setting.devices()) * u64::from(setting.threads().unwrap_or(1));
    let cores = u64::from(record.fingerprint.cores);
    (cores > 0 && threads > cores).then_some((threads, cores))
}
