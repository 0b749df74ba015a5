//! Stop requests by signals.

use std::{
    process::{Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Polling interval for the exit of a program.
#[cfg(unix)]
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Signal that requests a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Stop request of a run. The first signal lets the running cell finish; the second one kills it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Mutex<StopRequest>>);

#[derive(Debug, Default)]
struct StopRequest {
    first: Option<Signal>,
    /// True if there was a second signal.
    second: bool,
    /// True if signals end the program immediately.
    default_action: bool,
}

/// Adds a message to the error of a thread that could not be started.
fn thread_error(error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot start a thread: {error}"))
}

impl Stop {
    /// Installs handlers of SIGINT and SIGTERM that request a stop (Unix only).
    ///
    /// # Errors
    /// The system rejects the handler or cannot start a thread.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        #[cfg(unix)]
        {
            use signal_hook::consts::{SIGINT, SIGTERM};
            let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
            let handler = stop.clone();
            let started = std::thread::Builder::new().spawn(move || {
                for number in signals.forever() {
                    if handler.state().default_action {
                        // If this fails, the signal requests a stop.
                        let _ = signal_hook::low_level::emulate_default_handler(number);
                    }
                    handler.request(if number == SIGINT {
                        Signal::Interrupt
                    } else {
                        Signal::Terminate
                    });
                }
            });
            started.map_err(thread_error)?;
        }
        Ok(stop)
    }

    /// Requests a stop.
    pub fn request(&self, signal: Signal) {
        let mut state = self.state();
        state.second |= state.first.is_some();
        state.first.get_or_insert(signal);
    }

    /// Runs `work` with the default action of signals, which is to end the program.
    pub(crate) fn with_default_signals<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state().default_action = true;
        let done = work();
        self.state().default_action = false;
        done
    }

    /// Restores the default action of signals, which is to end the program.
    pub fn restore_default_signals(&self) {
        self.state().default_action = true;
    }

    /// Runs a command of the user in its own process group until it exits. The first signal sends SIGTERM to the group,
    /// the second one kills it.
    ///
    /// # Errors
    /// The command cannot be started.
    #[cfg(unix)]
    pub fn run_command(&self, command: &mut Command) -> std::io::Result<ExitStatus> {
        use std::os::unix::process::CommandExt as _;

        use rustix::process::{Pid, Signal as OsSignal, kill_process_group};
        let mut child = command.process_group(0).spawn()?;
        let mut terminated = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // An error means that the processes have already exited.
            if self.is_immediate() {
                let _ = kill_process_group(Pid::from_child(&child), OsSignal::KILL);
            } else if self.signal().is_some() && !terminated {
                let _ = kill_process_group(Pid::from_child(&child), OsSignal::TERM);
                terminated = true;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the first signal, if there was one.
    pub fn signal(&self) -> Option<Signal> {
        self.state().first
    }

    /// Returns true after a second signal: the running cell is killed.
    pub fn is_immediate(&self) -> bool {
        self.state().second
    }

    fn state(&self) -> MutexGuard<'_, StopRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_requests_an_immediate_stop() {
        let stop = Stop::default();
        assert_eq!((stop.signal(), stop.is_immediate()), (None, false));
        stop.request(Signal::Terminate);
        assert_eq!(
            (stop.signal(), stop.is_immediate()),
            (Some(Signal::Terminate), false)
        );
        stop.request(Signal::Interrupt);
        assert_eq!(
            (stop.signal(), stop.is_immediate()),
            (Some(Signal::Terminate), true)
        );
    }
}
