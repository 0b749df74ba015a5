//! `mantissa export`: converts recorded runs for other programs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use mantissa_gate::RunMeasurements;
use mantissa_report::{ExportFormat, load};

use crate::{
    args::ExportArguments,
    commands::gate::write,
    output_format::{Export, Format},
    printer::Printer,
};

pub(crate) fn export(arguments: &ExportArguments, printer: &Printer) -> Result<()> {
    match arguments.format {
        Export::Tables(format) => export_tables(format, arguments, printer),
        Export::Measurements(format) => export_measurements(format, arguments, printer),
    }
}

/// Exports the measurements of one run.
fn export_measurements(format: Format, arguments: &ExportArguments, printer: &Printer) -> Result<()> {
    let [folder] = arguments.runs.as_slice() else {
        bail!("this format describes a single run\n  hint: export each run to a separate file");
    };
    if !arguments.metrics.is_empty() {
        bail!("this format contains all metrics\n  hint: leave out `--metric`");
    }
    let text = format
        .render_run(&RunMeasurements::read(folder)?)?
        .unwrap_or_default();
    match &arguments.out {
        None => printer.data(&text),
        Some(out) if is_in_run_folder(out, &arguments.runs) => bail!(
            "cannot write `{}`: it is in the run folder, which contains recorded data\n  hint: choose another file",
            out.display()
        ),
        Some(out) => {
            write(out, text.as_bytes())?;
            printer.data(&out.display().to_string());
        }
    }
    Ok(())
}

/// Exports tables of several runs.
fn export_tables(format: ExportFormat, arguments: &ExportArguments, printer: &Printer) -> Result<()> {
    if arguments.out.is_none() && !format.is_text() {
        bail!(
            "cannot write `{format}` to standard output: it is a binary format\n  hint: pass a file, e.g. `--out results.{}`",
            format.extension()
        );
    }
    if let Some(out) = &arguments.out {
        check_output(out, &arguments.runs, format)?;
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

/// Rejects an output path that would overwrite recorded data. In a run folder, only files with the extension of the format may be replaced.
fn check_output(out: &Path, runs: &[PathBuf], format: ExportFormat) -> Result<()> {
    let is_replaceable = out
        .extension()
        .is_some_and(|extension| extension == format.extension());
    if out.exists() && is_in_run_folder(out, runs) && !is_replaceable {
        bail!(
            "cannot overwrite `{}`: it is part of the run\n  hint: choose another file",
            out.display()
        );
    }
    Ok(())
}

/// Returns true if the file is, or would be, in a run folder.
fn is_in_run_folder(out: &Path, runs: &[PathBuf]) -> bool {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let path = out
        .canonicalize()
        .or_else(|_| parent.unwrap_or(Path::new(".")).canonicalize());
    let mut folders = runs.iter().filter_map(|run| run.canonicalize().ok());
    path.is_ok_and(|path| folders.any(|folder| path.starts_with(folder)))
}
