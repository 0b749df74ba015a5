//! Arguments of `mantissa compare` and `mantissa gate`.

use std::path::PathBuf;

use clap::Args;
use mantissa_gate::Part;

use crate::output_format::OutputFile;

pub(super) const GATE_EXAMPLES: &str = "\
Examples:
  mantissa run matmul --profile smoke --repeats 5 --out reports/main && mantissa baseline save main reports/main
  mantissa gate reports/change --baseline main
  mantissa gate reports/change --baseline main --write markdown=summary.md --write annotations=-
  mantissa gate reports/change --baseline main --rerun-inconclusive 2 --against target/main/mantissa

Exit codes:
  0 no regression, 1 a regression, 2 the runs cannot be compared, 5 inconclusive with `--strict`";

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Run to compare with: a run folder, or a baseline's name or folder
    #[arg(value_name = "A")]
    pub(crate) baseline: String,
    /// Run folder to compare
    #[arg(value_name = "B")]
    pub(crate) candidate: PathBuf,
    #[command(flatten)]
    pub(crate) comparison: ComparisonOptions,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GateArguments {
    /// Run folder; several folders count as one run
    ///
    /// Pass several folders if their processes alternated with those of the baseline.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Name of a baseline, or folder of a baseline or a run
    ///
    /// Can be repeated for runs whose processes alternated.
    #[arg(long, value_name = "BASELINE", required = true)]
    pub(crate) baseline: Vec<String>,
    #[command(flatten)]
    pub(crate) comparison: ComparisonOptions,
    /// Also fail if a comparison is inconclusive
    #[arg(long)]
    pub(crate) strict: bool,
    /// Measure inconclusive cells again, up to N times
    ///
    /// Each time runs twice as many processes.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=8))]
    pub(crate) rerun_inconclusive: u32,
    /// Also measure the baseline again, with this program
    ///
    /// It must be the program that measured the baseline. The program that runs the gate must be the one that measured the run. The processes
    /// of the two programs alternate.
    #[arg(long, value_name = "PROGRAM", requires = "rerun_inconclusive")]
    pub(crate) against: Option<PathBuf>,
    /// Start cells with several devices by this command [default: mpirun]
    ///
    /// Applies to the repeated measurements (see `mantissa run --help`). It must be the command that the runs recorded. That command is not used
    /// by itself, because a run folder may come from an untrusted source.
    #[arg(long, value_name = "COMMAND", requires = "rerun_inconclusive")]
    pub(crate) mpirun: Option<String>,
    /// Write the result to a file in a format (`-`: standard output)
    ///
    /// Formats: markdown, annotations, junit, json, bencher, openmetrics, mlperf, benchmark-smaller, benchmark-bigger. Can be repeated.
    #[arg(long, value_name = "FORMAT=FILE")]
    pub(crate) write: Vec<OutputFile>,
    /// Append the run to the history, whatever the verdict
    #[arg(long)]
    pub(crate) append: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options for comparing two runs.
#[derive(Debug, Args)]
pub(crate) struct ComparisonOptions {
    /// Folder of baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(crate) baselines: PathBuf,
    /// Policy file with regression thresholds
    ///
    /// [default: `gate.toml` in the folder of baselines, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// History of earlier runs, used to estimate the noise
    ///
    /// [default: `history.jsonl` in the folder of baselines]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Accept that the machines differ in these parts
    ///
    /// Parts: gpu, driver, cpu, cores, backend, profile, build, framework, data.
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    pub(crate) allow_mismatch: Vec<Part>,
}
