//! The `mantissa` command: arguments, output and exit codes. Everything else is in the libraries.
//!
//! [`main`] is that of the program `mantissa`. A program with a model of its own calls [`main_with`] and has the same command line;
//! its suites say `model = "own"` and `dataset = "own"`:
//!
//! ```no_run
#![doc = include_str!("../../../examples/own_model.rs")]
//! ```

mod args;
mod commands;
mod exit;
mod paths;
mod printer;
mod progress;
mod suites;
mod written;

use std::process::ExitCode;

use clap::Parser;
use mantissa_workloads::OwnModel;

use crate::{
    args::Arguments,
    exit::Exit,
    printer::{Printer, visible},
};

/// The burn that models of one's own are written with: one version, in one program.
pub use mantissa_workloads::burn;
pub use mantissa_workloads::{Examples, Workload};

/// Does what the command line asks.
pub fn main() -> ExitCode {
    done(None)
}

/// The same, with a model of one's own.
pub fn main_with(workload: impl Workload) -> ExitCode {
    done(Some(&OwnModel::new(workload)))
}

fn done(own: Option<&OwnModel>) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    let printer = Printer::new(arguments.quiet);
    // Without it, a file that grows too large ends the process by a signal.
    let _ = mantissa_runner::survive_file_size_limit();
    let exit = commands::dispatch(arguments.command, own, &printer).unwrap_or_else(|error| {
        printer.error(&error);
        Exit::of(&error)
    });
    printer.finish(exit).into()
}

/// Prints the help, the version, or what is wrong with the command line.
fn refused(error: &clap::Error) -> ExitCode {
    let plain = error.to_string();
    if visible(&plain) == plain {
        // In colours, where the terminal has them.
        error.exit();
    }
    Printer::new(false).warn(plain.trim_end());
    ExitCode::from(Exit::Usage)
}
