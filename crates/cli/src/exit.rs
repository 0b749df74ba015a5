//! Exit codes: a documented interface for scripts.

use std::io;

use mantissa_core::is_exhausted;
use mantissa_report::ReportError;
use mantissa_runner::{RunError, Signal, WorkerExit};

/// Result of a command. A panic, which is a bug, exits with 101 instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Success,
    /// The gate found a regression.
    Regression,
    /// The command line or a file of the user is invalid.
    Usage,
    /// A cell is `failed`, has a status that its suite does not allow, or violates a bound of its suite.
    Unexpected,
    /// The machine lacks a requirement.
    MissingRequirement,
    /// Some comparisons are inconclusive and `--strict` was given.
    Inconclusive,
    /// Exit code that `git bisect run` interprets.
    Code(u8),
    /// A signal stopped the command. The exit code is the one that shells report. Results up to this point are recorded.
    Stopped(Signal),
    /// Exit code of a worker, for its parent.
    Worker(WorkerExit),
}

impl Exit {
    /// Returns the result of a command that failed with this error.
    pub(crate) fn from_error(error: &anyhow::Error) -> Self {
        let mut causes = error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>());
        if causes.any(is_exhausted) {
            return Self::MissingRequirement;
        }
        // Rejecting a symbolic link is an error of the input, not of the machine.
        if let Some(ReportError::Write { source, .. }) = error.downcast_ref()
            && source.kind() != io::ErrorKind::InvalidInput
        {
            return Self::MissingRequirement;
        }
        match error.downcast_ref::<RunError>() {
            Some(
                RunError::Unavailable { .. }
                | RunError::Busy { .. }
                | RunError::Full { .. }
                | RunError::Samples(_),
            ) => Self::MissingRequirement,
            Some(RunError::Stopped(signal)) => Self::Stopped(*signal),
            Some(
                RunError::Occupied { .. }
                | RunError::Moved { .. }
                | RunError::Folder(_)
                | RunError::Locked { .. }
                | RunError::Io { .. }
                | RunError::Input(_)
                | RunError::Worker(_),
            )
            | None => Self::Usage,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Regression => 1,
            Self::Usage => 2,
            Self::Unexpected => 3,
            Self::MissingRequirement => 4,
            Self::Inconclusive => 5,
            Self::Code(code) => code,
            Self::Stopped(Signal::Interrupt) => 128 + 2,
            Self::Stopped(Signal::Terminate) => 128 + 15,
            Self::Worker(exit) => exit as u8,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use mantissa_core::Backend;

    use super::*;

    #[test]
    fn missing_requirements_and_usage_errors_have_different_codes() {
        let lacking = RunError::Unavailable {
            backend: Backend::Cuda,
            reason: "no driver".into(),
        };
        assert_eq!(Exit::from_error(&lacking.into()).code(), 4);
        assert_eq!(
            Exit::from_error(&RunError::Input("line 3".into()).into()).code(),
            2
        );
        assert_eq!(Exit::from_error(&anyhow::anyhow!("no suites")).code(), 2);
        // The worker cannot be started, because the limit on the number of processes is reached.
        let refused = RunError::Worker(ErrorKind::WouldBlock.into());
        assert_eq!(Exit::from_error(&refused.into()).code(), 4);
        let unwritten = ReportError::Write {
            path: "report.html".into(),
            source: ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(Exit::from_error(&unwritten.into()).code(), 4);
        let link = ReportError::Write {
            path: "report.html".into(),
            source: ErrorKind::InvalidInput.into(),
        };
        assert_eq!(Exit::from_error(&link.into()).code(), 2);
        let full = io::Error::from(ErrorKind::StorageFull);
        assert_eq!(Exit::from_error(&full.into()).code(), 4);
    }
}
