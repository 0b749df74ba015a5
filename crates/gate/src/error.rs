//! Errors of comparisons, baselines, histories and policies.

use std::{
    io,
    path::{Path, PathBuf},
};

use mantissa_core::{RecordError, SCHEMA_VERSION, in_one_line};

use crate::Mismatch;

/// Error of a comparison, baseline, history or policy.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A file of a run or a baseline is missing or not readable.
    #[error(
        "cannot read `{path}`: {source}\n  hint: give the folder of a run, or the name of a baseline (`mantissa baseline list`)"
    )]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The policy file is missing or not readable.
    #[error("cannot read the policy `{path}`: {source}")]
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
    /// The content of a file does not match its schema.
    #[error("`{path}`, line {line}, is not what mantissa writes: {}", in_one_line(reason))]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Description of the mismatch.
        reason: String,
    },
    /// A file was written by a later version.
    #[error("`{path}` has schema {found}, this build reads up to {SCHEMA_VERSION}\n  hint: update mantissa")]
    NewerSchema {
        /// Path of the file.
        path: PathBuf,
        /// Schema version of the file.
        found: u32,
    },
    /// A file contains no record.
    #[error(
        "`{path}` holds no record\n  hint: a run that ended before its first cell has nothing to compare"
    )]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// A history file is empty.
    #[error("`{path}` is empty\n  hint: remove it, and `mantissa gate --append` begins a history")]
    EmptyHistory {
        /// Path of the file.
        path: PathBuf,
    },
    /// No folder of a run was named.
    #[error("no run to compare")]
    NoRun,
    /// Records cannot be read.
    #[error("`{path}`: {source}")]
    Records {
        /// Path of the file.
        path: PathBuf,
        /// Line and reason.
        source: RecordError,
    },
    /// The last line of a run is incomplete.
    #[error(
        "the last line of `{path}` was cut by a crash or a full disk\n  hint: complete the run with `mantissa run --resume` first"
    )]
    Cut {
        /// Path of the file.
        path: PathBuf,
    },
    /// The name of a baseline is not usable as a folder name.
    #[error(
        "`{given}` is no name for a baseline\n  hint: letters, digits, `-`, `_` and `.`, as in `main` or `v1.2`"
    )]
    BaselineName {
        /// The rejected name.
        given: String,
    },
    /// There is no baseline of this name.
    #[error("there is no baseline `{given}`{}", known_names(known))]
    NoBaseline {
        /// The requested name.
        given: String,
        /// Names of the existing baselines.
        known: Vec<String>,
    },
    /// None of the baselines of a name was measured on a comparable machine.
    #[error("no baseline `{name}` was measured on what this run was: {}\n  hint: save one here with `mantissa baseline save`, or name what may differ with `--allow-mismatch` until one is left", differences.join("; "))]
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
    /// The machines of the two runs differ.
    #[error(
        "the runs were not measured on the same: {}\n  hint: what may differ is named with `--allow-mismatch {}`",
        told(mismatches),
        names(mismatches)
    )]
    Mismatch {
        /// All differences.
        mismatches: Vec<Mismatch>,
    },
    /// The start time of a run is invalid.
    #[error("`{path}`: `{given}` is no time\n  hint: times are written as in `2026-11-22T05:49:56Z`")]
    Started {
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
    #[error("run `{run}` is in `{path}` already")]
    KnownRun {
        /// Name of the run.
        run: String,
        /// Path of the history.
        path: PathBuf,
    },
    /// A folder was named twice.
    #[error("`{path}` is named twice, and its processes count once")]
    Twice {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Runs of different programs cannot be joined.
    #[error(
        "`{}` was measured by {}, and `{}` by {}: they are not one program's processes",
        runs[0], programs[0], runs[1], programs[1]
    )]
    Programs {
        /// Names of the runs.
        runs: [String; 2],
        /// Description of the program of each run.
        programs: [String; 2],
    },
    /// No cell has enough completed processes.
    #[error(
        "no cell ran to its end in {repeats} processes on both sides, and fewer decide nothing\n  hint: `mantissa run --repeats {repeats}`"
    )]
    FewRepeats {
        /// Number of processes that the policy requires.
        repeats: u32,
    },
    /// A run began before the latest run of the history.
    #[error(
        "run `{run}` began at {started}, before run `{last}` at {last_started}, which `{path}` has already\n  hint: runs are appended in the order in which they began; else a clock went backwards"
    )]
    Backwards {
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
    /// The records of a run come from several machines or builds.
    #[error(
        "`{path}`, line {line}, was measured on another machine or by another build than the lines before it\n  hint: measure again in one run"
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

fn known_names(known: &[String]) -> String {
    match known {
        [] => "\n  hint: save one with `mantissa baseline save NAME RUN`".to_owned(),
        _ => format!("\n  hint: there are `{}`", known.join("`, `")),
    }
}

fn told(mismatches: &[Mismatch]) -> String {
    mismatches
        .iter()
        .map(Mismatch::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn names(mismatches: &[Mismatch]) -> String {
    let parts = mismatches.iter().map(|mismatch| mismatch.part.name());
    parts.collect::<Vec<_>>().join(",")
}
