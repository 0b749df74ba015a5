//! Stop requests by signals.

use std::{
    process::{Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Polling interval for the exit of a program.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(20);

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
    again: bool,
    /// True if signals end the program immediately, because there is nothing to stop first.
    default_action: bool,
}

/// Returns the error of a thread that could not be started.
fn no_thread(error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot start a thread: {error}"))
}

impl Stop {
    /// Requests a stop on SIGINT and SIGTERM from now on, where the system has them.
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
                        // If this fails, the signal has no effect.
                        let _ = signal_hook::low_level::emulate_default_handler(number);
                    }
                    handler.ask(if number == SIGINT {
                        Signal::Interrupt
                    } else {
                        Signal::Terminate
                    });
                }
            });
            started.map_err(no_thread)?;
        }
        Ok(stop)
    }

    /// Requests a stop.
    pub fn ask(&self, signal: Signal) {
        let mut state = self.state();
        state.again |= state.first.is_some();
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
    pub fn give_up(&self) {
        self.state().default_action = true;
    }

    /// Runs a command of the user in its own process group until it exits. The first signal sends SIGTERM to the group,
    /// the second one kills it.
    ///
    /// # Errors
    /// The command cannot be started.
    #[cfg(unix)]
    pub fn attend(&self, command: &mut Command) -> std::io::Result<ExitStatus> {
        use std::os::unix::process::CommandExt as _;

        use rustix::process::{Pid, Signal as Sent, kill_process_group};
        let mut child = command.process_group(0).spawn()?;
        let mut terminated = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // An error means that the processes have already exited.
            if self.at_once() {
                let _ = kill_process_group(Pid::from_child(&child), Sent::KILL);
            } else if self.asked().is_some() && !terminated {
                let _ = kill_process_group(Pid::from_child(&child), Sent::TERM);
                terminated = true;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the first signal, if there was one.
    pub fn asked(&self) -> Option<Signal> {
        self.state().first
    }

    /// Returns true after a second signal.
    pub fn at_once(&self) -> bool {
        self.state().again
    }

    fn state(&self) -> MutexGuard<'_, StopRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_counts_and_the_second_is_urgent() {
        let stop = Stop::default();
        assert_eq!((stop.asked(), stop.at_once()), (None, false));
        stop.ask(Signal::Terminate);
        assert_eq!((stop.asked(), stop.at_once()), (Some(Signal::Terminate), false));
        stop.ask(Signal::Interrupt);
        assert_eq!((stop.asked(), stop.at_once()), (Some(Signal::Terminate), true));
    }
}
