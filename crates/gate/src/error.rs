//! Everything that can be wrong with what is compared.

use std::{
    io,
    path::{Path, PathBuf},
};

use mantissa_core::{RecordError, SCHEMA_VERSION, in_one_line};

use crate::Mismatch;

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A file of a run or a baseline is not there, or not readable.
    #[error(
        "cannot read `{path}`: {source}\n  hint: give the folder of a run, or the name of a baseline (`mantissa baseline list`)"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file of a policy is not there, or not readable.
    #[error("cannot read the policy `{path}`: {source}")]
    ReadPolicy {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has another shape than this version knows.
    #[error("`{path}`, line {line}, is not what mantissa writes: {}", in_one_line(reason))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Written by a later version.
    #[error("`{path}` has schema {found}, this build reads up to {SCHEMA_VERSION}\n  hint: update mantissa")]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// No record.
    #[error(
        "`{path}` holds no record\n  hint: a run that ended before its first cell has nothing to compare"
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file of a history has no line.
    #[error("`{path}` is empty\n  hint: remove it, and `mantissa gate --append` begins a history")]
    EmptyHistory {
        /// The file.
        path: PathBuf,
    },
    /// No folder was named.
    #[error("no run to compare")]
    NoRun,
    /// Records that could not be read.
    #[error("`{path}`: {source}")]
    Records {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: RecordError,
    },
    /// A run whose last line was cut.
    #[error(
        "the last line of `{path}` was cut by a crash or a full disk\n  hint: complete the run with `mantissa run --resume` first"
    )]
    Cut {
        /// The file.
        path: PathBuf,
    },
    /// A name that cannot be a folder's.
    #[error(
        "`{given}` is no name for a baseline\n  hint: letters, digits, `-`, `_` and `.`, as in `main` or `v1.2`"
    )]
    BaselineName {
        /// The name.
        given: String,
    },
    /// No baseline of a name.
    #[error("there is no baseline `{given}`{}", known_names(known))]
    NoBaseline {
        /// The name.
        given: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Baselines of a name, none of which was measured on the same.
    #[error("no baseline `{name}` was measured on what this run was: {}\n  hint: save one here with `mantissa baseline save`, or name what may differ with `--allow-mismatch` until one is left", differences.join("; "))]
    NoMachine {
        /// The name.
        name: String,
        /// What differs, baseline by baseline.
        differences: Vec<String>,
    },
    /// A policy with something wrong.
    #[error("`{path}`: {reason}")]
    Policy {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        reason: String,
    },
    /// Machines that differ.
    #[error(
        "the runs were not measured on the same: {}\n  hint: what may differ is named with `--allow-mismatch {}`",
        told(mismatches),
        names(mismatches)
    )]
    Mismatch {
        /// Everything that differs.
        mismatches: Vec<Mismatch>,
    },
    /// A run that does not say when it was begun.
    #[error("`{path}`: `{given}` is no time\n  hint: times are written as in `2026-11-22T05:49:56Z`")]
    Started {
        /// The folder.
        path: PathBuf,
        /// What stands there.
        given: String,
    },
    /// Runs of other suites.
    #[error(
        "`{baseline}` and `{candidate}` have no cell in common\n  hint: compare runs of the same suites, sizes and seeds"
    )]
    NothingInCommon {
        /// Name of the one.
        baseline: String,
        /// Name of the other.
        candidate: String,
    },
    /// A run that a history has.
    #[error("run `{run}` is in `{path}` already")]
    KnownRun {
        /// The run.
        run: String,
        /// The history.
        path: PathBuf,
    },
    /// A folder that would count twice.
    #[error("`{path}` is named twice, and its processes count once")]
    Twice {
        /// The folder.
        path: PathBuf,
    },
    /// Processes of different programs.
    #[error(
        "`{}` was measured by {}, and `{}` by {}: they are not one program's processes",
        runs[0], programs[0], runs[1], programs[1]
    )]
    Programs {
        /// Names of the runs.
        runs: [String; 2],
        /// What measured each.
        programs: [String; 2],
    },
    /// Nothing was measured often enough.
    #[error(
        "no cell ran to its end in {repeats} processes on both sides, and fewer decide nothing\n  hint: `mantissa run --repeats {repeats}`"
    )]
    FewRepeats {
        /// What the policy asks for.
        repeats: u32,
    },
    /// A run that began before one that is there.
    #[error(
        "run `{run}` began at {started}, before run `{last}` at {last_started}, which `{path}` has already\n  hint: runs are appended in the order in which they began; else a clock went backwards"
    )]
    Backwards {
        /// The run.
        run: String,
        /// When it began.
        started: String,
        /// The latest of the machine.
        last: String,
        /// When that one began.
        last_started: String,
        /// The history.
        path: PathBuf,
    },
    /// A run that went on elsewhere.
    #[error(
        "`{path}`, line {line}, was measured on another machine or by another build than the lines before it\n  hint: measure again in one run"
    )]
    ManyMachines {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
}

impl GateError {
    /// A file that could not be read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }

    /// A file that could not be written.
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
