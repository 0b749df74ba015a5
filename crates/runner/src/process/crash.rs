//! Classification of workers that end without a final message.

use std::process::ExitStatus;

use mantissa_core::Status;

use super::output::last_lines;
use crate::exit::{WorkerExit, is_out_of_memory};

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ProcessEnd {
    Code(i32),
    Signal(i32),
    /// The process cannot be killed.
    CannotBeKilled,
}

impl ProcessEnd {
    pub(super) fn of(exit: ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&exit) {
            return Self::Signal(signal);
        }
        Self::Code(exit.code().unwrap_or(-1))
    }
}

/// Returns status and reason for a worker that ended without a final message. `text` is its output;
/// `killed_for_memory` is true if the kernel killed a process for lack of memory while the worker ran.
pub(super) fn classify(end: ProcessEnd, text: &str, killed_for_memory: bool) -> (Status, String) {
    const SIGABRT: i32 = 6;
    const SIGKILL: i32 = 9;
    let output = last_lines(text);
    // A backtrace may follow the message of the allocator.
    let no_memory = text.lines().find(|line| is_out_of_memory(line));
    let with_output = |reason: String| {
        if output.is_empty() {
            reason
        } else {
            format!("{reason}: {output}")
        }
    };
    match end {
        ProcessEnd::CannotBeKilled => (
            Status::Timeout,
            with_output("the process cannot be killed, because a driver call does not return".into()),
        ),
        ProcessEnd::Signal(SIGKILL) if killed_for_memory => (
            Status::Oom,
            "killed by the operating system: host memory ran out (SIGKILL)".into(),
        ),
        ProcessEnd::Signal(SIGKILL) => (
            Status::Failed,
            with_output("killed by another process (SIGKILL)".into()),
        ),
        ProcessEnd::Signal(SIGABRT) if no_memory.is_some() => (
            Status::Oom,
            format!("host memory ran out: {}", no_memory.unwrap_or_default().trim()),
        ),
        ProcessEnd::Signal(signal) => (
            Status::Failed,
            with_output(format!("terminated by signal {signal}")),
        ),
        ProcessEnd::Code(code) if code == WorkerExit::OutOfMemory as i32 => {
            (Status::Oom, with_output("out of memory".into()))
        }
        ProcessEnd::Code(code) => {
            let meaning = WorkerExit::ALL
                .iter()
                .find(|exit| **exit as i32 == code)
                .map(|exit| exit.meaning());
            (
                Status::Failed,
                with_output(meaning.map_or_else(|| format!("exit code {code}"), str::to_owned)),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigkill_is_oom_only_if_the_kernel_killed_a_process() {
        let kill = ProcessEnd::Signal(9);
        assert_eq!(classify(kill, "", true).0, Status::Oom);
        assert_eq!(
            classify(kill, "x", false),
            (Status::Failed, "killed by another process (SIGKILL): x".into())
        );
    }

    #[test]
    fn oom_is_detected_by_exit_code_and_by_error_text() {
        assert_eq!(
            classify(ProcessEnd::Code(WorkerExit::OutOfMemory as i32), "", false).0,
            Status::Oom
        );
        assert_eq!(
            classify(
                ProcessEnd::Signal(6),
                "memory allocation of 99 bytes failed\nstack backtrace:\n 0: a\n 1: b\n 2: c\n 3: d",
                false
            ),
            (
                Status::Oom,
                "host memory ran out: memory allocation of 99 bytes failed".into()
            )
        );
        assert_eq!(
            classify(ProcessEnd::Signal(6), "assertion failed", false).0,
            Status::Failed
        );
        assert!(is_out_of_memory("CUDA_ERROR_OUT_OF_MEMORY"));
        // Message of `Vec::with_capacity(usize::MAX / 2)`.
        assert!(is_out_of_memory(
            "panicked at raw_vec/mod.rs:28:5:\ncapacity overflow"
        ));
    }

    #[test]
    fn other_exits_are_failures_with_the_last_output() {
        assert_eq!(
            classify(ProcessEnd::Code(3), "", false),
            (Status::Failed, "exit code 3".into())
        );
        let (status, reason) = classify(
            ProcessEnd::Code(WorkerExit::Panicked as i32),
            "index out of bounds",
            false,
        );
        assert_eq!(
            (status, reason.as_str()),
            (Status::Failed, "a thread panicked: index out of bounds")
        );
    }
}
