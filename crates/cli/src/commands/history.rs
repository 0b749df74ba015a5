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

/// Prints the changes in the history. Succeeds even if there are some.
pub(crate) fn history(arguments: &HistoryArguments, printer: &Printer) -> Result<()> {
    if let Some(file) = arguments.file.as_deref().filter(|file| !file.is_file()) {
        bail!("there is no history `{}`", file.display());
    }
    let usual = Path::new("baselines").join(History::FILE);
    let file = arguments.file.as_deref().unwrap_or(&usual);
    for written in [&arguments.page, &arguments.parquet].into_iter().flatten() {
        let same = |path: &Path| path.canonicalize().ok();
        if same(written).is_some_and(|written| Some(written) == same(file)) {
            bail!(
                "`{}` is the history itself, and recorded data is never overwritten\n  hint: name another file",
                file.display()
            );
        }
    }
    let history = History::read(file)?;
    if history.entries().is_empty() {
        printer.note(&format!(
            "`{}` holds no run yet\n  hint: `mantissa gate RUN --baseline NAME --append` appends one",
            file.display()
        ));
    }
    let beside = file.with_file_name(Policy::FILE);
    let beside = Some(beside.as_path()).filter(|path| path.is_file());
    let policy = policy_of(arguments.policy.as_deref().or(beside))?;
    let trends = history.trends(|metric| policy.floors.get(&metric).copied());
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let told = history.told(&name, &trends);
    // Detect files that cannot be written before printing anything.
    if let Some(page) = &arguments.page {
        write(page, told.html()?)?;
        printer.note(&format!("page written to {}", page.display()));
    }
    if let Some(parquet) = &arguments.parquet {
        write(parquet, history.parquet()?)?;
        printer.note(&format!("history written to {}", parquet.display()));
    }
    let table = told.table();
    match arguments.json {
        true => printer.data(&serde_json::to_string_pretty(&trends)?),
        false if table.rows.is_empty() => printer.data(&table.title),
        false => printer.data(&draw(&table)),
    }
    Ok(())
}
