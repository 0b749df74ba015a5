//! Errors of loading runs and rendering reports.

use std::{io, path::PathBuf};

use mantissa_core::CellId;
use mantissa_run_folder::FolderError;

/// Reason why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run folder could not be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Records of one workload read different input files.
    #[error(
        "`{path}`: records of workload `{workload}` read different input files: {differs}\n  hint: record each set of input files in its own run"
    )]
    OtherInputs {
        /// The run folder.
        path: PathBuf,
        /// The workload.
        workload: String,
        /// Difference between the input files.
        differs: String,
    },
    /// Two cells of a suite have the same workload name, setting and seed.
    #[error(
        "suite `{suite}`: cells `{}` and `{}` of workload `{workload}` have the same setting and seed, but different workloads\n  hint: report \
         their records as two runs",
        cells[0], cells[1]
    )]
    SameSetting {
        /// The suite.
        suite: String,
        /// The name of both workloads.
        workload: String,
        /// The ids of the cells.
        cells: [CellId; 2],
    },
    /// A suite names a published table that is not built in.
    #[error("unknown reference `{given}`{}\n  hint: built-in references are `{}`", closest(nearest), valid.join("`, `"))]
    UnknownReference {
        /// Name in the suite file.
        given: String,
        /// The most similar name.
        nearest: Option<&'static str>,
        /// All built-in names.
        valid: Vec<&'static str>,
    },
    /// A built-in published table is malformed, which is a bug.
    #[error("reference `{name}`: {reason}")]
    BadReference {
        /// Name of the table.
        name: String,
        /// Cause.
        reason: String,
    },
    /// A picture could not be drawn or encoded.
    #[error("cannot draw figure `{figure}`: {reason}")]
    Draw {
        /// The figure.
        figure: String,
        /// Error of the drawing library.
        reason: String,
    },
    /// The report cannot be serialized, which is a bug.
    #[error("cannot write the report as JSON: {0}")]
    Json(serde_json::Error),
    /// A side-by-side report needs at least two runs.
    #[error(
        "`--side-by-side` needs at least two runs\n  hint: pass another run folder, or omit `--side-by-side`"
    )]
    OneRun,
    /// More runs than a readable table has columns for.
    #[error("cannot show {given} runs side by side, at most {limit}\n  hint: pass fewer run folders")]
    ManyRuns {
        /// Number of runs.
        given: usize,
        /// Maximum number of runs.
        limit: usize,
    },
    /// A run folder was passed twice. A comparison of a run with itself would show no differences.
    #[error("run folder `{path}` is given twice\n  hint: pass a different run folder")]
    SameRun {
        /// The path as given the second time.
        path: PathBuf,
    },
    /// No two runs have a setting in common.
    #[error(
        "the runs have no cell in common\n  hint: rows are matched by suite, workload, setting and seed; run the same \
         suite with the same `-a` values"
    )]
    NothingInCommon,
    /// The template of the page failed.
    #[error("cannot render the page: {0}")]
    Page(#[from] minijinja::Error),
    /// The details of the cells could not be written as JSON.
    #[error("cannot write the details of the cells as JSON: {0}")]
    Cells(#[source] serde_json::Error),
    /// The CSV writer failed.
    #[error("cannot write CSV: {0}")]
    Csv(#[source] io::Error),
    /// The Parquet writer failed.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// A run without cells cannot be exported.
    #[error("cannot export run `{run}`: it has no cells\n  hint: record a run with `mantissa run`")]
    NoCells {
        /// Name of the run.
        run: String,
    },
    /// Two of several runs have the same name.
    #[error(
        "two runs are named `{run}`, so their rows cannot be distinguished\n  hint: pass each run once, or rename one of the folders"
    )]
    SameName {
        /// The name.
        run: String,
    },
    /// A result could not be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl From<::csv::Error> for ReportError {
    fn from(error: ::csv::Error) -> Self {
        let text = error.to_string();
        Self::Csv(match error.into_kind() {
            ::csv::ErrorKind::Io(error) => error,
            _ => io::Error::other(text),
        })
    }
}

fn closest(nearest: &Option<&'static str>) -> String {
    nearest
        .map(|name| format!(", the closest is `{name}`"))
        .unwrap_or_default()
}
