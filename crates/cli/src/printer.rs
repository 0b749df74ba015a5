//! Data to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

/// The one place that prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    quiet: bool,
}

impl Printer {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// What was asked for. A reader that has gone away, as `head` does, ends the program in silence.
    pub(crate) fn data(&self, text: &str) {
        let mut out = io::stdout().lock();
        let written = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
        if written.is_err() {
            std::process::exit(0);
        }
    }

    /// What helps to follow; `--quiet` silences it.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// What must be seen, `--quiet` or not.
    pub(crate) fn warn(&self, text: &str) {
        // Nobody is left to tell if standard error is closed.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Why a command failed, with its hint.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        self.warn(&format!("error: {error}"));
    }

    /// Whether something that moves may be drawn on standard error.
    pub(crate) fn draws(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}
