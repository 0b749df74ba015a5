//! `mantissa plan` and `mantissa list`.

use anyhow::Result;
use mantissa_core::{Plan, Profile};
use mantissa_runner::choose_backend;
use mantissa_worker::Burn;

use crate::{
    args::{PlanArguments, Selection},
    paths::{self, DataRead, RunInputs},
    printer::Printer,
    progress::cell_label,
    suites::{self, SuiteFile},
};

pub(crate) fn plan(arguments: &PlanArguments, printer: &Printer) -> Result<()> {
    let selection = &arguments.selection;
    let found = suites::select(selection)?;
    // Accept a named backend that this machine lacks, because another machine may run the plan.
    let backend = selection
        .named_backend()
        .map_or_else(|| choose_backend(&Burn, None), Ok)?;
    let profile = suites::profile(selection, backend);
    let inputs = RunInputs::new(selection, None, (&found, profile))?;
    let plan = suites::expand(&found, (selection, &inputs), profile, backend)?;
    inputs.check_suite_files(&plan)?;
    print(&plan, &inputs, arguments.json, printer)
}

/// Prints every cell, with the reason if it is skipped, and the data that each workload reads.
pub(crate) fn print(plan: &Plan, inputs: &RunInputs, json: bool, printer: &Printer) -> Result<()> {
    let data = paths::data_read(inputs, plan);
    if json {
        let mut value = serde_json::to_value(plan)?;
        value["data"] = data.iter().map(DataRead::json).collect();
        printer.data(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let mut lines = vec![];
    for suite in &plan.suites {
        let cells: Vec<_> = plan
            .cells
            .iter()
            .filter(|planned| planned.cell.suite == suite.name)
            .collect();
        let skipped = cells.iter().filter(|planned| planned.skip.is_some()).count();
        lines.push(format!(
            "{}, profile {}: {} to run, {skipped} skipped",
            suite.name,
            plan.profile,
            cells.len() - skipped
        ));
        let labels: Vec<String> = cells
            .iter()
            .map(|planned| cell_label(&planned.cell, &suite.axes))
            .collect();
        let width = labels.iter().map(String::len).max().unwrap_or(0);
        for (planned, label) in cells.iter().zip(labels) {
            let skip = planned
                .skip
                .as_ref()
                .map(|reason| format!("  skipped: {reason}"))
                .unwrap_or_default();
            lines.push(
                format!("  {}  {label:width$}{skip}", planned.cell.id)
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    if !data.is_empty() {
        lines.push("data".to_owned());
        lines.extend(data.iter().map(|line| format!("  {line}")));
    }
    printer.data(&lines.join("\n"));
    Ok(())
}

/// Prints every suite with its workloads and the number of cells in each profile.
pub(crate) fn list(found: Vec<SuiteFile>, printer: &Printer) -> Result<()> {
    let backend = choose_backend(&Burn, None)?;
    let mut lines = vec![];
    let selection = Selection::default();
    for suite_file in &found {
        lines.push(format!(
            "{}  {}",
            suite_file.path.display(),
            suite_file.suite.info(Profile::Smoke).title
        ));
        for &profile in Profile::ALL {
            let names: Vec<&str> = suite_file
                .suite
                .workloads(profile)
                .iter()
                .map(|workload| workload.name.as_str())
                .collect();
            let suite = std::slice::from_ref(suite_file);
            let inputs = RunInputs::new(&selection, None, (suite, profile))?;
            let plan = suites::expand(suite, (&selection, &inputs), profile, backend)?;
            let (run, all) = (plan.runnable().count(), plan.cells.len());
            lines.push(format!(
                "  {profile:<8}  {run} cells, {} skipped: {}",
                all - run,
                names.join(", ")
            ));
        }
    }
    printer.data(&lines.join("\n"));
    Ok(())
}
