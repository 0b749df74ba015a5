//! Errors of comparisons, baselines, histories and policies.

use std::{
    io,
    path::{Path, PathBuf},
};

use mantissa_run_folder::FolderError;

use crate::Mismatch;

/// Error of a comparison, baseline, history or policy.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A run, a baseline or a history could not be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The folder of the baselines cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The policy file is missing or not readable.
    #[error("cannot read policy file `{path}`: {source}")]
    ReadPolicy {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A line of a run, baseline or history is invalid, or contradicts earlier lines.
    #[error("line {line} of `{path}` is invalid: {reason}")]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        reason: String,
    },
    /// A file does not contain any records.
    #[error(
        "`{path}` contains no records\n  hint: a run that stopped before its first cell cannot be compared"
    )]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// A history file is empty.
    #[error(
        "history `{path}` is empty\n  hint: delete the file; `mantissa gate --append` creates a new history"
    )]
    EmptyHistory {
        /// Path of the file.
        path: PathBuf,
    },
    /// The list of run folders is empty.
    #[error("no run folder is given")]
    NoRun,
    /// The last line of a run is incomplete.
    #[error(
        "the last line of `{path}` is truncated, probably by a crash or a full disk\n  hint: complete the run with `mantissa run --resume` first"
    )]
    Truncated {
        /// Path of the file.
        path: PathBuf,
    },
    /// The name of a baseline is not usable as a folder name.
    #[error(
        "`{given}` is not a valid baseline name\n  hint: use at most 100 letters, digits, `-`, `_` and `.`, not starting with `.`, e.g. `main` or `v1.2`"
    )]
    BaselineName {
        /// The rejected name.
        given: String,
    },
    /// The baseline does not exist.
    #[error("baseline `{given}` does not exist{}", baseline_hint(known))]
    NoBaseline {
        /// The requested name.
        given: String,
        /// Names of the existing baselines.
        known: Vec<String>,
    },
    /// Several baselines have this name, and none or more than one of them is comparable with the candidate.
    #[error(
        "no baseline `{name}` has the machine, backend and profile of this run: {}\n  hint: save a baseline on this machine with `mantissa baseline save`, or allow differences with `--allow-mismatch` so that exactly one baseline is comparable",
        differences.join("; ")
    )]
    NoMachine {
        /// Name of the baselines.
        name: String,
        /// Differences, one entry per baseline.
        differences: Vec<String>,
    },
    /// A policy is invalid.
    #[error("`{path}`: {reason}")]
    Policy {
        /// Path of the file.
        path: PathBuf,
        /// Reason, with its location.
        reason: String,
    },
    /// The two runs differ in machine, build, profile or data.
    #[error(
        "the runs were not measured under the same conditions: {}\n  hint: allow these differences with `--allow-mismatch {}`",
        join_mismatches(mismatches),
        part_names(mismatches)
    )]
    Mismatch {
        /// All differences.
        mismatches: Vec<Mismatch>,
    },
    /// The start time of a run is invalid.
    #[error(
        "run `{path}` has the invalid start time `{given}`\n  hint: the format is RFC 3339, e.g. `2026-11-22T05:49:56Z`"
    )]
    InvalidStartTime {
        /// Folder of the run.
        path: PathBuf,
        /// The rejected value.
        given: String,
    },
    /// The two runs have no cell in common.
    #[error(
        "`{baseline}` and `{candidate}` have no cell in common\n  hint: compare runs of the same suites, sizes and seeds"
    )]
    NothingInCommon {
        /// Name of the baseline.
        baseline: String,
        /// Name of the candidate.
        candidate: String,
    },
    /// The history already contains the run.
    #[error("history `{path}` already contains run `{run}`")]
    KnownRun {
        /// Name of the run.
        run: String,
        /// Path of the history.
        path: PathBuf,
    },
    /// A run folder is given twice.
    #[error("run folder `{path}` is given twice\n  hint: give each run folder once")]
    DuplicateFolder {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Runs of different programs cannot be joined.
    #[error(
        "cannot join runs of different programs: `{}` was measured by {}, `{}` by {}",
        runs[0], programs[0], runs[1], programs[1]
    )]
    DifferentPrograms {
        /// Names of the runs.
        runs: [String; 2],
        /// Description of the program of each run.
        programs: [String; 2],
    },
    /// No cell has enough completed processes.
    #[error(
        "no cell completed {repeats} processes on both sides, the minimum for a verdict\n  hint: measure with `mantissa run --repeats {repeats}`"
    )]
    FewRepeats {
        /// Number of processes that the policy requires.
        repeats: u32,
    },
    /// The run started before the latest run of the history.
    #[error(
        "cannot append run `{run}` to history `{path}`: it started at {started}, before the latest run `{last}` ({last_started})\n  hint: append runs in the order of their start times; if the order is right, check whether the clock was set back"
    )]
    OutOfOrder {
        /// Name of the run.
        run: String,
        /// Start time of the run.
        started: String,
        /// Latest run of the same machine.
        last: String,
        /// Start time of the latest run.
        last_started: String,
        /// Path of the history.
        path: PathBuf,
    },
    /// The records of a run come from several machines or programs.
    #[error(
        "line {line} of `{path}` was measured on another machine or by another build than the lines before it\n  hint: measure the cells again in one run"
    )]
    ManyMachines {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
}

impl GateError {
    /// Returns a closure that maps an I/O error to [`GateError::Read`].
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }

    /// Returns a closure that maps an I/O error to [`GateError::Write`].
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}

fn baseline_hint(known: &[String]) -> String {
    match known {
        [] => "\n  hint: save one with `mantissa baseline save NAME RUN`".to_owned(),
        _ => format!("\n  hint: existing baselines: `{}`", known.join("`, `")),
    }
}

fn join_mismatches(mismatches: &[Mismatch]) -> String {
    mismatches
        .iter()
        .map(Mismatch::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn part_names(mismatches: &[Mismatch]) -> String {
    let parts = mismatches.iter().map(|mismatch| mismatch.part.name());
    parts.collect::<Vec<_>>().join(",")
}
