//! Being asked to stop, once or twice.

use std::{
    process::{Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Time between two looks at a program.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(20);

/// A signal that asks a run to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Whether a run was asked to stop. The first signal lets the running cell end; the second ends it too.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
struct Asked {
    first: Option<Signal>,
    again: bool,
    /// Signals end the program: nothing has to be stopped first.
    default_action: bool,
}

/// Returns the error of a thread that could not be started.
fn no_thread(error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot start a thread: {error}"))
}

impl Stop {
    /// Asked by SIGINT and SIGTERM from now on, where the system has them.
    ///
    /// # Errors
    /// What the system says against it.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        #[cfg(unix)]
        {
            use signal_hook::consts::{SIGINT, SIGTERM};
            let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
            let asked = stop.clone();
            let started = std::thread::Builder::new().spawn(move || {
                for number in signals.forever() {
                    if asked.state().default_action {
                        // An error leaves the signal without effect, as if it had not come.
                        let _ = signal_hook::low_level::emulate_default_handler(number);
                    }
                    asked.ask(if number == SIGINT {
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

    /// Asks.
    pub fn ask(&self, signal: Signal) {
        let mut state = self.state();
        state.again |= state.first.is_some();
        state.first.get_or_insert(signal);
    }

    /// Runs `work` with the default action of signals: they end the program.
    pub(crate) fn with_default_signals<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state().default_action = true;
        let done = work();
        self.state().default_action = false;
        done
    }

    /// From now on signals end the program as they do any other.
    pub fn give_up(&self) {
        self.state().default_action = true;
    }

    /// Runs a program of the user's to its end, in a process group of its own. The first signal asks all of that group to
    /// end, the second ends it.
    ///
    /// # Errors
    /// It cannot be started.
    #[cfg(unix)]
    pub fn attend(&self, command: &mut Command) -> std::io::Result<ExitStatus> {
        use std::os::unix::process::CommandExt as _;

        use rustix::process::{Pid, Signal as Sent, kill_process_group};
        let mut child = command.process_group(0).spawn()?;
        let mut told = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // An error means that they are gone already.
            if self.at_once() {
                let _ = kill_process_group(Pid::from_child(&child), Sent::KILL);
            } else if self.asked().is_some() && !told {
                let _ = kill_process_group(Pid::from_child(&child), Sent::TERM);
                told = true;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What asked first, if anything did.
    pub fn asked(&self) -> Option<Signal> {
        self.state().first
    }

    /// Whether it was asked twice.
    pub fn at_once(&self) -> bool {
        self.state().again
    }

    fn state(&self) -> MutexGuard<'_, Asked> {
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
