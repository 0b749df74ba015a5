//! Child process that is killed on drop, with its process group.

use std::{
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

/// Time limit for a killed worker to exit. A process that is stuck in a driver call cannot be killed.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Child process that is killed when it is dropped, together with the processes that it started.
pub(super) struct Worker(pub(super) Child);

impl Worker {
    /// Kills the worker and its process group. The worker must not have been reaped, because the system could then have
    /// reused its process id.
    pub(super) fn kill(&mut self) {
        // An error means that the processes have already exited.
        #[cfg(unix)]
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::KILL,
        );
        let _ = self.0.kill();
    }

    /// Requests the exit of the process with SIGTERM. The process must not have been reaped.
    #[cfg(target_os = "linux")]
    pub(super) fn terminate(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        // An error means that the process has already exited.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
    }

    /// Returns true if the process has exited. Does not reap it, so its process id stays reserved.
    pub(super) fn has_exited(&mut self) -> bool {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            // An error means that the process was already reaped.
            waitid(WaitId::Pid(Pid::from_child(&self.0)), options).map_or(true, |state| state.is_some())
        }
        #[cfg(not(unix))]
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Waits for the exit, and kills the process after `grace`. Kills the rest of the process group in any case. Returns
    /// `None` if the process still runs after `kill_timeout`.
    pub(super) fn wait(
        &mut self,
        grace: Duration,
        kill_timeout: Duration,
    ) -> std::io::Result<Option<ExitStatus>> {
        poll_until(grace, || self.has_exited());
        self.kill();
        if poll_until(kill_timeout, || self.has_exited()) {
            self.0.wait().map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Polls a condition. Returns true if it becomes true within `limit`.
fn poll_until(limit: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    let start = Instant::now();
    loop {
        if is_true() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Do not kill a reaped process, since another process may have its id. For a reaped process, `try_wait` returns
        // the same status again.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.wait(Duration::ZERO, KILL_TIMEOUT);
        }
    }
}

/// Returns the peak host memory of a process in bytes (Linux only).
pub(super) fn host_peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::process::Command;

    use mantissa_core::Status;

    use super::*;
    use crate::process::crash::{ProcessEnd, classify};

    #[test]
    fn a_worker_that_cannot_be_killed_is_a_timeout() {
        let moment = Duration::from_millis(20);
        assert!(!poll_until(moment, || false), "the wait has a time limit");
        let mut polls = 0;
        assert!(poll_until(Duration::from_secs(60), || {
            polls += 1;
            polls == 3
        }));
        let (status, reason) = classify(ProcessEnd::CannotBeKilled, "NVRM: stuck", false);
        assert_eq!(status, Status::Timeout);
        assert!(reason.starts_with("the process cannot be killed") && reason.ends_with("NVRM: stuck"));
    }

    #[cfg(unix)]
    #[test]
    fn a_worker_is_killed_after_the_grace_period() {
        let worker = |script: &str| {
            let mut command = Command::new("sh");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            Worker(command.args(["-c", script]).spawn().unwrap())
        };
        let minute = Duration::from_secs(60);
        let exit = worker("exit 7").wait(minute, minute).unwrap();
        assert_eq!(exit.map(ProcessEnd::of), Some(ProcessEnd::Code(7)));
        let exit = worker("sleep 600")
            .wait(Duration::from_millis(20), minute)
            .unwrap();
        assert_eq!(exit.map(ProcessEnd::of), Some(ProcessEnd::Signal(9)));
    }
}
