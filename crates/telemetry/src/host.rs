//! Host memory of a process as counted by the operating system.

use crate::{Reading, Source};

/// Source that reads `/proc/self/status` or the `status` file of another process. Only Linux has these files; on other
/// systems, the values are absent.
#[derive(Debug, Default)]
pub struct HostMemory {
    /// Process id. Without one, this process is measured.
    process: Option<u32>,
    failed: Option<String>,
}

impl HostMemory {
    /// Creates a source for another process.
    pub fn of(process: u32) -> Self {
        Self {
            process: Some(process),
            failed: None,
        }
    }
}

impl Source for HostMemory {
    fn read(&mut self, reading: &mut Reading) {
        if reading.brief {
            return;
        }
        let process = self
            .process
            .map_or_else(|| "self".to_owned(), |id| id.to_string());
        match std::fs::read_to_string(format!("/proc/{process}/status")) {
            Ok(status) => {
                reading.host_bytes = bytes_of_field(&status, "VmRSS:");
                reading.host_peak_bytes = bytes_of_field(&status, "VmHWM:");
            }
            // The other process may exit before the last reading.
            Err(_) if self.process.is_some() => {}
            Err(error) => self.failed = Some(format!("host memory: /proc/{process}/status: {error}")),
        }
    }

    /// Returns false: memory can change fast, but the system keeps its peak.
    fn changes_fast(&self) -> bool {
        false
    }

    fn missing(&self) -> Vec<String> {
        self.failed.iter().cloned().collect()
    }
}

/// Configures the C library to keep freed memory for later allocations, in one arena for all threads. Returns true on
/// success.
///
/// The system clears the pages of new memory one by one. burn's CPU backend allocates memory for every result, so
/// clearing takes a sixth of a training step (measured: docs/performance.md). The memory in use and its peak do not
/// change.
pub fn keep_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Bytes that are requested from the system in addition to what is needed.
        const AHEAD: i32 = 64 << 20;
        /// Value for "never", see mallopt(3).
        const NEVER: i32 = -1;
        let settings = [
            (libc::M_ARENA_MAX, 1),
            (libc::M_MMAP_MAX, 0),
            (libc::M_TRIM_THRESHOLD, NEVER),
            (libc::M_TOP_PAD, AHEAD),
        ];
        settings.into_iter().all(|(setting, value)| {
            // SAFETY: sets a number that later allocations read; no memory in use is touched.
            #[expect(unsafe_code, reason = "an interface of the C library")]
            let taken = unsafe { libc::mallopt(setting, value) };
            taken == 1
        })
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

/// Resets the peak memory of this process to its current memory. Returns true if the system supports it. First, the
/// allocator returns freed memory to the system, so that this memory does not count as used.
pub(crate) fn reset_peak() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: returns free pages to the system; no memory in use is touched.
    #[expect(unsafe_code, reason = "an interface of the C library")]
    unsafe {
        libc::malloc_trim(0);
    }
    // Linux: 5 resets `VmHWM`, see proc_pid_clear_refs(5).
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Returns the value of a line like `VmHWM:    1234 kB`, in bytes.
fn bytes_of_field(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let (number, unit) = line.trim().split_once(' ')?;
    (unit == "kB").then(|| number.parse::<u64>().ok().map(|kib| kib * 1024))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(bytes_of_field(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(bytes_of_field(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(bytes_of_field(status, "VmSwap:"), None);
        assert_eq!(bytes_of_field("VmRSS:\t1 MB\n", "VmRSS:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_includes_freed_memory_until_it_is_reset() {
        const BYTES: usize = 64 << 20;
        let read = || {
            let mut reading = Reading::default();
            HostMemory::default().read(&mut reading);
            reading
        };
        let before = read().host_bytes.unwrap();
        drop(std::hint::black_box(vec![1u8; BYTES]));
        let after = read();
        assert!(after.host_peak_bytes.unwrap() >= before + BYTES as u64 * 9 / 10);

        if reset_peak() {
            let peak = read().host_peak_bytes.unwrap();
            assert!(peak < before + BYTES as u64 / 2, "{peak} bytes, {before} before");
        }
    }
}
