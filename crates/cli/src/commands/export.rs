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
        Export::Tables(format) => tables(format, arguments, printer),
        Export::Measured(format) => measured(format, arguments, printer),
    }
}

/// Exports the measurements of one run.
fn measured(format: Format, arguments: &ExportArguments, printer: &Printer) -> Result<()> {
    let [folder] = arguments.runs.as_slice() else {
        bail!("this format holds one run\n  hint: a file a run");
    };
    if !arguments.metrics.is_empty() {
        bail!("this format holds every metric\n  hint: leave out `--metric`");
    }
    let text = format
        .of_run(&RunMeasurements::read(folder)?)?
        .unwrap_or_default();
    match &arguments.out {
        None => printer.data(&text),
        Some(out) if within(out, &arguments.runs) => bail!(
            "`{}` lies in the run's folder, which holds what was recorded\n  hint: name another file",
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
fn tables(format: ExportFormat, arguments: &ExportArguments, printer: &Printer) -> Result<()> {
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

/// Rejects an output path that would overwrite recorded data. In a run folder, only files that a report replaces as well may be replaced.
fn spare(out: &Path, runs: &[PathBuf], format: ExportFormat) -> Result<()> {
    let rendered = out
        .extension()
        .is_some_and(|extension| extension == format.extension());
    if out.exists() && within(out, runs) && !rendered {
        bail!(
            "`{}` is part of the run, and recorded data is never overwritten\n  hint: name another file",
            out.display()
        );
    }
    Ok(())
}

/// Returns true if the file is, or would be, in a run folder.
fn within(out: &Path, runs: &[PathBuf]) -> bool {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let place = out
        .canonicalize()
        .or_else(|_| parent.unwrap_or(Path::new(".")).canonicalize());
    let mut folders = runs.iter().filter_map(|run| run.canonicalize().ok());
    place.is_ok_and(|place| folders.any(|folder| place.starts_with(folder)))
}
