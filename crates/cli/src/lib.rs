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
    printer::{Printer, escape_control_characters},
};

/// The version of burn that own models have to use.
pub use mantissa_workloads::burn;
pub use mantissa_workloads::{Examples, UserWorkload};

/// Runs the command line.
pub fn main() -> ExitCode {
    run_command_line(None)
}

/// Runs the command line in a program with its own model.
pub fn main_with(workload: impl UserWorkload) -> ExitCode {
    run_command_line(Some(&OwnModel::new(workload)))
}

fn run_command_line(own_model: Option<&OwnModel>) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return print_usage_error(&error),
    };
    let printer = Printer::new(arguments.quiet);
    // By default, a write beyond the file size limit kills the process with a signal. Return an error instead.
    let _ = mantissa_runner::survive_file_size_limit();
    let exit = commands::dispatch(arguments.command, own_model, &printer).unwrap_or_else(|error| {
        printer.error(&error);
        Exit::from_error(&error)
    });
    printer.finish(exit).into()
}

/// Prints the help, the version, or the error in the command line.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    let message = error.to_string();
    if escape_control_characters(&message) == message {
        // Prints with colors if the terminal supports them.
        error.exit();
    }
    Printer::new(false).warn(message.trim_end());
    ExitCode::from(Exit::Usage)
}
