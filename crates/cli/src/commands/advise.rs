//! `mantissa advise`: the cheapest setting that keeps accuracy in recorded runs.

use anyhow::Result;
use mantissa_report::{Budget, Report, load};

use crate::{args::AdviseArguments, commands::report::draw, printer::Printer};

/// Prints the advice of each run. Succeeds even if no setting is within the budget.
pub(crate) fn advise(arguments: &AdviseArguments, printer: &Printer) -> Result<()> {
    let budget = budget(arguments);
    // Read every run before printing, because one of them may be invalid.
    let runs = arguments
        .runs
        .iter()
        .map(|folder| load(folder))
        .collect::<Result<Vec<_>, _>>()?;
    let mut all = vec![];
    for run in &runs {
        all.push(mantissa_report::advise(&Report::new(run)?, &budget));
    }
    if arguments.json {
        printer.data(&serde_json::to_string_pretty(&all)?);
    } else {
        let texts: Vec<String> = all.iter().map(|advice| advice.text(draw)).collect();
        printer.data(&texts.join("\n\n\n"));
    }
    Ok(())
}

fn budget(arguments: &AdviseArguments) -> Budget {
    let default = Budget::default();
    Budget {
        accuracy_loss: arguments.accuracy_loss.unwrap_or(default.accuracy_loss),
        error: arguments.error,
        memory_bytes: arguments.memory,
        minimise: arguments.minimise.map_or(default.minimise, Into::into),
    }
}
