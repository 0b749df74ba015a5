//! `mantissa export`: recorded runs for other programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use mantissa_report::{ExportFormat, ReportError, load};

use crate::{args::ExportArguments, printer::Printer};

pub(crate) fn export(arguments: &ExportArguments, printer: &Printer) -> Result<()> {
    let format = arguments.format;
    if arguments.out.is_none() && !format.is_text() {
        bail!(
            "`{format}` is not text, and is not written to standard output\n  hint: name a file, e.g. `--out results.{}`",
            format.extension()
        );
    }
    if let Some(out) = &arguments.out {
        spare(out, &arguments.runs, format)?;
    }
    let runs = arguments.runs.iter().map(|folder| load(folder));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let bytes = mantissa_report::export(&runs, format, &arguments.metrics)?;
    match &arguments.out {
        None => printer.data(&String::from_utf8(bytes)?),
        Some(out) => {
            write(out, &bytes)?;
            printer.data(&out.display().to_string());
        }
    }
    Ok(())
}

/// Recorded data is never overwritten: of the files in a run folder, only those are replaced that a report replaces, too.
fn spare(out: &Path, runs: &[PathBuf], format: ExportFormat) -> Result<()> {
    let Ok(file) = out.canonicalize() else {
        return Ok(());
    };
    let mut folders = runs.iter().filter_map(|run| run.canonicalize().ok());
    let rendered = file
        .extension()
        .is_some_and(|extension| extension == format.extension());
    if folders.any(|folder| file.starts_with(folder)) && !rendered {
        bail!(
            "`{}` is part of the run, and recorded data is never overwritten\n  hint: name another file",
            out.display()
        );
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })
}
