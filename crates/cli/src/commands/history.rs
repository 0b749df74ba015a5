//! `mantissa history`: changes over the history of gated runs.

use std::path::Path;

use anyhow::{Result, bail};
use mantissa_gate::{History, Policy};

use crate::{
    args::HistoryArguments,
    commands::{
        gate::{policy_of, write},
        report::draw,
    },
    printer::Printer,
};

/// Prints the changes in the history. Succeeds even if there are regressions.
pub(crate) fn history(arguments: &HistoryArguments, printer: &Printer) -> Result<()> {
    if let Some(file) = arguments.file.as_deref().filter(|file| !file.is_file()) {
        bail!("history `{}` does not exist", file.display());
    }
    let default = Path::new("baselines").join(History::FILE);
    let file = arguments.file.as_deref().unwrap_or(&default);
    for output in [&arguments.page, &arguments.parquet].into_iter().flatten() {
        let resolved = |path: &Path| path.canonicalize().ok();
        if resolved(output).is_some_and(|output| Some(output) == resolved(file)) {
            bail!(
                "cannot overwrite `{}`: it is the history\n  hint: choose another file",
                file.display()
            );
        }
    }
    let history = History::read(file)?;
    if history.entries().is_empty() {
        printer.note(&format!(
            "`{}` contains no runs\n  hint: append one with `mantissa gate RUN --baseline NAME --append`",
            file.display()
        ));
    }
    let default_policy = file.with_file_name(Policy::FILE);
    let default_policy = Some(default_policy.as_path()).filter(|path| path.is_file());
    let policy = policy_of(arguments.policy.as_deref().or(default_policy))?;
    let trends = history.trends(|metric| policy.floors.get(&metric).copied());
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let rendered = history.to_trends(&name, &trends);
    // Detect files that cannot be written before printing anything.
    if let Some(page) = &arguments.page {
        write(page, rendered.html()?)?;
        printer.note(&format!("page written to {}", page.display()));
    }
    if let Some(parquet) = &arguments.parquet {
        write(parquet, history.parquet()?)?;
        printer.note(&format!("history written to {}", parquet.display()));
    }
    let table = rendered.table();
    match arguments.json {
        true => printer.data(&serde_json::to_string_pretty(&trends)?),
        false if table.rows.is_empty() => printer.data(&table.title),
        false => printer.data(&draw(&table)),
    }
    Ok(())
}
