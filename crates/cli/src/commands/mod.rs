//! The subcommands, one file each.

mod advise;
mod baseline;
mod bisect;
mod check_kernels;
mod data;
mod devices;
mod export;
mod gate;
mod history;
mod memory;
mod plan;
mod probe;
mod report;
mod rerun;
mod run;
mod sensitivity;

use anyhow::Result;
use mantissa_core::{Record, explain};
use mantissa_workloads::OwnModel;

use crate::{
    args::{Command, DataCommand},
    exit::Exit,
    printer::Printer,
    suites,
};

/// Runs a command. `own_model` is the model that the program defines, if any.
pub(crate) fn dispatch(command: Command, own_model: Option<&OwnModel>, printer: &Printer) -> Result<Exit> {
    match command {
        Command::Run(arguments) => return run::run(arguments, printer),
        Command::List(arguments) => {
            let found = suites::read(suites::files()?)?;
            match arguments.memory {
                true => memory::list(&found, arguments.profile, printer)?,
                false => plan::list(found, printer)?,
            }
        }
        Command::Plan(arguments) => plan::plan(&arguments, printer)?,
        Command::Report(arguments) => report::report(&arguments, printer)?,
        Command::Export(arguments) => export::export(&arguments, printer)?,
        Command::Advise(arguments) => advise::advise(&arguments, printer)?,
        Command::Compare(arguments) => gate::compare(&arguments, printer)?,
        Command::Gate(arguments) => return gate::gate(&arguments, printer),
        Command::History(arguments) => history::history(&arguments, printer)?,
        Command::Baseline(command) => baseline::baseline(&command, printer)?,
        Command::Bisect(arguments) => return bisect::bisect(&arguments, printer),
        Command::BisectStep(arguments) => return Ok(bisect::step(&arguments, printer)),
        Command::Explain { format } => printer.data(&explain(format).to_string()),
        Command::Devices { json } => devices::devices(json, printer)?,
        Command::Probe(arguments) => return probe::probe(&arguments, printer),
        Command::CheckKernels(arguments) => return check_kernels::check(&arguments, printer),
        Command::Sensitivity(arguments) => return sensitivity::sensitivity(&arguments, printer),
        Command::Data(DataCommand::Check { path, columns, json }) => {
            data::data_check(&path, &columns.names(), json, printer)?;
        }
        Command::Schema => {
            let schema = schemars::schema_for!(Record);
            printer.data(&serde_json::to_string_pretty(&schema)?);
        }
        Command::About => printer.data(&serde_json::to_string(&mantissa_runner::ProgramInfo::this())?),
        Command::Worker { group } => {
            return Ok(Exit::Worker(mantissa_worker::worker(own_model, group.as_deref())));
        }
    }
    Ok(Exit::Success)
}
