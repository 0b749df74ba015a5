//! `mantissa report`, of one run or of several side by side, and the report at the end of a run.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use comfy_table::{Cell, CellAlignment, presets::UTF8_FULL_CONDENSED};
use mantissa_report::{
    Align, Report, Table, load, load_side_by_side, render_side_by_side, render_single_file,
    terminal_overview, terminal_tables, terminal_tables_within,
};
use mantissa_run_folder::SETTINGS_FILE;

use crate::{
    args::{Rendering, ReportArguments},
    printer::Printer,
};

/// Maximum number of lines of the tables that are printed instead of an overview.
const MAX_LINES: usize = 40;
/// Maximum width of an overview if the width of the terminal is unknown.
const OVERVIEW_WIDTH: usize = 110;

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
        let out = match (&arguments.out, &arguments.runs[..]) {
            (None, _) => run.clone(),
            (Some(out), [_]) => out.clone(),
            (Some(out), _) => out.join(folder_name(run)?),
        };
        let rendered = render(run, &out, arguments.rendering)?;
        printer.data(&rendered.text);
        printer.data(&rendered.page.display().to_string());
    }
    Ok(())
}

/// Overview or tables for a terminal, and the path of the page to open.
pub(crate) struct RenderedReport {
    pub(crate) text: String,
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
pub(crate) fn render(run: &Path, out: &Path, rendering: Rendering) -> Result<RenderedReport> {
    let run = load(run)?;
    let rendered = match rendering.single_file {
        true => render_single_file(&run, out)?,
        false => mantissa_report::render(&run, out)?,
    };
    Ok(RenderedReport {
        text: terminal_text(&Report::new(&run)?, rendering.tables),
        page: rendered.html,
    })
}

/// Returns all tables if `tables` is true, else an overview. The tables of one suite take precedence if they have few lines.
fn terminal_text(report: &Report<'_>, tables: bool) -> String {
    // `None` if standard output is a pipe or a file.
    let width = comfy_table::Table::new().width().map(usize::from);
    if tables || report.suites.len() == 1 {
        let drawn = match width {
            Some(width) => terminal_tables_within(report, width),
            None => terminal_tables(report),
        };
        let drawn = drawn.iter().map(draw).collect::<Vec<_>>().join("\n\n");
        if tables || drawn.lines().count() <= MAX_LINES {
            return drawn;
        }
    }
    terminal_overview(report, width.unwrap_or(OVERVIEW_WIDTH))
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
