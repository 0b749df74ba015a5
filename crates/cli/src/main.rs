//! The `mantissa` binary: arguments, output and exit codes. Everything else is in the libraries.

mod args;
mod commands;
mod exit;
mod paths;
mod printer;
mod progress;
mod suites;

use clap::Parser;

use crate::{args::Arguments, exit::Exit, printer::Printer};

/// Counts what is allocated: a worker tells with it what holds the memory of a training on the CPU.
#[global_allocator]
static ALLOCATOR: mantissa_runner::CountingAllocator = mantissa_runner::CountingAllocator;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let printer = Printer::new(arguments.quiet);
    let exit = commands::dispatch(arguments.command, &printer).unwrap_or_else(|error| {
        printer.error(&error);
        Exit::of(&error)
    });
    exit.into()
}
