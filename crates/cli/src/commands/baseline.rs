//! `mantissa baseline`: saved records to compare with.

use anyhow::Result;
use comfy_table::Table;
use mantissa_gate::{BaselineInfo, Baselines, RunMeasurements};

use crate::{args::BaselineCommand, printer::Printer};

pub(crate) fn baseline(command: &BaselineCommand, printer: &Printer) -> Result<()> {
    match command {
        BaselineCommand::Save { name, run, location } => {
            let run = RunMeasurements::read(run)?;
            let saved = Baselines::new(&location.baselines).save(name, &run)?;
            if saved.repeats < mantissa_gate::Policy::MIN_REPEATS as usize {
                printer.warn(&format!(
                    "a cell was measured in {} processes, but the gate needs {}\n  hint: measure again with `mantissa run --repeats {1}`",
                    saved.repeats,
                    mantissa_gate::Policy::MIN_REPEATS
                ));
            }
            let folder = location.baselines.join(&saved.name).join(&saved.machine);
            printer.data(&folder.display().to_string());
        }
        BaselineCommand::List { location, json } => {
            let all = Baselines::new(&location.baselines).list()?;
            match json {
                true => printer.data(&serde_json::to_string_pretty(&all)?),
                false if all.is_empty() => {
                    printer.note("no baselines yet\n  hint: save one with `mantissa baseline save NAME RUN`");
                }
                false => printer.data(&table(&all)),
            }
        }
        BaselineCommand::Show {
            name,
            machine,
            location,
        } => {
            let all = Baselines::new(&location.baselines).get(name, machine.as_deref())?;
            printer.data(&serde_json::to_string_pretty(&all)?);
        }
        BaselineCommand::Drop {
            name,
            machine,
            location,
        } => {
            for machine in Baselines::new(&location.baselines).drop(name, machine.as_deref())? {
                printer.note(&format!("deleted {name}/{machine}"));
            }
        }
    }
    Ok(())
}

fn table(all: &[BaselineInfo]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "name",
        "machine, backend, profile",
        "cells",
        "processes",
        "measured",
        "revision",
    ]);
    for saved in all {
        let revision: String = saved
            .revision
            .iter()
            .flat_map(|revision| revision.chars().take(10))
            .collect();
        table.add_row([
            saved.name.clone(),
            saved.machine.clone(),
            saved.cells.to_string(),
            saved.repeats.to_string(),
            saved.started.clone(),
            revision,
        ]);
    }
    table.to_string()
}
