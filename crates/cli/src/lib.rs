//! The `mantissa` command: arguments, output and exit codes. Everything else is in the libraries.
//!
//! [`main`] is the entry point of the program `mantissa`. A program with its own model calls [`main_with`] and has the same command line. Its
//! suites use `model = "own"` and `dataset = "own"`:
//!
//! ```no_run
#![doc = include_str!("../../../examples/own_model.rs")]
//! ```

mod args;
mod commands;
mod exit;
mod output_format;
mod paths;
mod printer;
mod progress;
mod suites;
mod watched_regression;

use std::process::ExitCode;

use clap::Parser;
use mantissa_workloads::OwnModel;

use crate::{
    args::Arguments,
    exit::Exit,
    printer::{Printer, visible},
};

/// The version of burn that own models have to use.
pub use mantissa_workloads::burn;
pub use mantissa_workloads::{Examples, UserWorkload};

/// Runs the command line.
pub fn main() -> ExitCode {
    done(None)
}

/// Runs the command line with an own model.
pub fn main_with(workload: impl UserWorkload) -> ExitCode {
    done(Some(&OwnModel::new(workload)))
}

fn done(own: Option<&OwnModel>) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    let printer = Printer::new(arguments.quiet);
    // Otherwise, a signal kills the process when a file grows too large.
    let _ = mantissa_runner::survive_file_size_limit();
    let exit = commands::dispatch(arguments.command, own, &printer).unwrap_or_else(|error| {
        printer.error(&error);
        Exit::of(&error)
    });
    printer.finish(exit).into()
}

/// Prints the help, the version, or the error in the command line.
fn refused(error: &clap::Error) -> ExitCode {
    let plain = error.to_string();
    if visible(&plain) == plain {
        // Prints with colors if the terminal supports them.
        error.exit();
    }
    Printer::new(false).warn(plain.trim_end());
    ExitCode::from(Exit::Usage)
}
