//! `mantissa report`, of one run or of several side by side, and the report at the end of a run.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use comfy_table::{Cell, CellAlignment, presets::UTF8_FULL_CONDENSED};
use mantissa_report::{
    Align, Report, Table, load, load_side_by_side, render_side_by_side, terminal_tables,
    terminal_tables_within,
};
use mantissa_run_folder::SETTINGS_FILE;

use crate::{args::ReportArguments, printer::Printer};

pub(crate) fn report(arguments: &ReportArguments, printer: &Printer) -> Result<()> {
    // clap requires `--out` with `--side-by-side`.
    if let Some(out) = arguments.out.as_deref().filter(|_| arguments.side_by_side) {
        let rendered = render_side_by_side(&load_side_by_side(&arguments.runs)?, out)?;
        printer.data(&rendered.html.display().to_string());
        return Ok(());
    }
    if arguments.json {
        let mut all = vec![];
        for folder in &arguments.runs {
            all.push(mantissa_report::json(&Report::new(&load(folder)?)?)?);
        }
        printer.data(&format!("[{}]", all.join(",\n")));
        return Ok(());
    }
    if let Some(out) = &arguments.out {
        check_folder(out, &arguments.runs)?;
    }
    for run in &arguments.runs {
        let rendered = match (&arguments.out, &arguments.runs[..]) {
            (None, _) => render(run, run)?,
            (Some(out), [_]) => render(run, out)?,
            (Some(out), _) => render(run, &out.join(folder_name(run)?))?,
        };
        printer.data(&rendered.tables);
        printer.data(&rendered.page.display().to_string());
    }
    Ok(())
}

/// Report for a terminal, and the path of its page.
pub(crate) struct RenderedReport {
    pub(crate) tables: String,
    pub(crate) page: PathBuf,
}

/// Returns the name of a run folder, also for paths such as `.` and for symbolic links.
fn folder_name(run: &Path) -> Result<PathBuf> {
    let absolute = run
        .canonicalize()
        .with_context(|| format!("cannot read `{}`", run.display()))?;
    Ok(absolute.file_name().unwrap_or_default().into())
}

/// Rejects a folder in which a report would replace that of another run.
fn check_folder(out: &Path, runs: &[PathBuf]) -> Result<()> {
    let mut names = BTreeSet::new();
    for run in runs {
        let name = folder_name(run)?;
        let target = if runs.len() == 1 {
            out.to_owned()
        } else {
            out.join(&name)
        };
        let is_same = target.canonicalize().ok() == run.canonicalize().ok();
        if target.join(SETTINGS_FILE).exists() && !is_same {
            bail!(
                "cannot write the report to `{}`: it is the folder of another run\n  hint: pass another folder to `--out`",
                target.display()
            );
        }
        if !names.insert(name.clone()) {
            bail!(
                "two runs are named `{}`, so their reports would overwrite each other\n  hint: render them one at a time",
                name.display()
            );
        }
    }
    Ok(())
}

/// Writes the report of a run to a folder.
pub(crate) fn render(run: &Path, out: &Path) -> Result<RenderedReport> {
    let run = load(run)?;
    let page = mantissa_report::render(&run, out)?.html;
    let report = Report::new(&run)?;
    let tables = match comfy_table::Table::new().width() {
        Some(columns) => terminal_tables_within(&report, columns.into()),
        // Standard output is a pipe or a file.
        None => terminal_tables(&report),
    };
    let tables = tables.iter().map(draw).collect::<Vec<_>>().join("\n\n");
    Ok(RenderedReport { tables, page })
}

/// Draws a table for a terminal.
pub(crate) fn draw(table: &Table) -> String {
    let side = |align: Align| match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    };
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(UTF8_FULL_CONDENSED);
    drawn.set_header(
        table
            .header
            .iter()
            .map(|(title, align)| Cell::new(title).set_alignment(side(*align))),
    );
    for row in &table.rows {
        let cells = row.iter().zip(&table.header);
        drawn.add_row(cells.map(|(text, (_, align))| Cell::new(text).set_alignment(side(*align))));
    }
    format!("{}\n{}", table.title, drawn.trim_fmt())
}
