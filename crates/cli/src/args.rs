//! The command line.

mod advise;
mod backend;
mod baseline;
mod bisect;
mod check_kernels;
mod data;
mod export;
mod gate;
mod history;
mod list;
mod plan;
mod probe;
mod rendering;
mod report;
mod run;
mod selection;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use mantissa_core::Format;

pub(crate) use advise::AdviseArguments;
pub(crate) use baseline::BaselineCommand;
pub(crate) use bisect::{BisectArguments, BisectStepArguments};
pub(crate) use check_kernels::CheckKernelsArguments;
pub(crate) use data::DataCommand;
pub(crate) use export::ExportArguments;
pub(crate) use gate::{CompareArguments, ComparisonOptions, GateArguments};
pub(crate) use history::HistoryArguments;
pub(crate) use list::ListArguments;
pub(crate) use plan::PlanArguments;
pub(crate) use probe::ProbeArguments;
pub(crate) use rendering::Rendering;
pub(crate) use report::ReportArguments;
pub(crate) use run::{BusyChoice, OrderChoice, Precompile, RunArguments};
pub(crate) use selection::{Init, Selection};

use self::{bisect::BISECT_EXAMPLES, gate::GATE_EXAMPLES, history::HISTORY_EXAMPLES};

const EXAMPLES: &str = "\
Examples:
  mantissa run suites/articles/distilbert-imdb.toml
  mantissa run --all --profile smoke
  mantissa run suites/kernels/matmul.toml -a precision=32-true,bf16-true -a size=1024,4096
  mantissa run suites/articles/distilbert-imdb.toml --data aclImdb --vocabulary vocab.txt
  mantissa run --resume reports/20260101T120000Z-distilbert-imdb
  mantissa plan suites/articles/distilbert-imdb.toml --profile full
  mantissa export reports/20260101T120000Z-distilbert-imdb --format csv --out results.csv
  mantissa advise reports/20260101T120000Z-distilbert-imdb --accuracy-loss 0.5 --memory 24GiB
  mantissa gate reports/20260101T120000Z-distilbert-imdb --baseline main
  mantissa explain bf16

Exit codes:
  0 success, 1 the gate found a regression, 2 invalid command line or file, 3 a cell failed or
  violated an expectation of its suite, 4 the machine lacks a requirement, 5 the gate is
  inconclusive and `--strict` was given, 101 a bug, 130 stopped by Ctrl-C, 143 stopped by SIGTERM";

/// Benchmark number formats for deep learning: cost and accuracy
#[derive(Debug, Parser)]
#[command(name = "mantissa", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print nothing but results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run suites, record every cell, write the report
    #[command(after_help = EXAMPLES)]
    Run(RunArguments),
    /// List the suites under `suites/`
    List(ListArguments),
    /// List the cells of suites, and why some are skipped
    Plan(PlanArguments),
    /// Regenerate the report of recorded runs
    ///
    /// Needs no GPU.
    Report(ReportArguments),
    /// Export recorded runs as CSV, Parquet, LaTeX or Markdown
    ///
    /// Exports every cell, including the failed ones. Some formats export a single run only; see `--format`.
    Export(ExportArguments),
    /// Recommend the cheapest setting that keeps accuracy in recorded runs
    ///
    /// Prints the evidence and the settings that were not tested. Needs no GPU.
    Advise(AdviseArguments),
    /// Compare two runs cell by cell
    ///
    /// Every metric is reported as better, worse, the same or inconclusive. Needs no GPU.
    Compare(CompareArguments),
    /// Check a run against a baseline; exits with 1 on a regression
    ///
    /// A regression is a change for the worse that is larger than both the noise and the threshold of the policy.
    #[command(after_help = GATE_EXAMPLES)]
    Gate(GateArguments),
    /// List regressions and improvements in the history of gated runs
    ///
    /// Prints the run at which each metric changed. Needs no GPU.
    #[command(after_help = HISTORY_EXAMPLES)]
    History(HistoryArguments),
    /// Find the commit that introduced a regression
    ///
    /// Runs `git bisect` in a separate work tree, with the gate's verdict on each commit.
    #[command(after_help = BISECT_EXAMPLES)]
    Bisect(BisectArguments),
    /// Test the commit that is checked out
    #[command(hide = true)]
    BisectStep(BisectStepArguments),
    /// Save, list, show and delete baselines
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Explain a number format: its bits, its limits and how it rounds
    ///
    /// Shows the values of 1/3, 10⁶ and 65504·2 in the format.
    Explain {
        /// f64, f32, tf32, bf16 or f16
        format: Format,
    },
    /// Show the devices of this machine and the formats of each backend
    Devices {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check which precision the hardware executes under every setting
    ///
    /// Fails if a setting is not executed as requested.
    Probe(ProbeArguments),
    /// Check every GPU kernel that the autotuner may choose
    ///
    /// Each candidate computes a matmul, a convolution or attention on small integers, whose sums are exact, in a separate process. The exit
    /// code is 3 if a result differs from float64 or a kernel crashes or times out. `run` checks the kernels of its cells in the same way, once
    /// per card, driver and program, and uses only kernels that pass. `MANTISSA_WITHOUT=tma,specialized` leaves out candidates whose names
    /// contain one of these words; `MANTISSA_UNCHECKED_KERNELS=1` skips the checks.
    CheckKernels(CheckKernelsArguments),
    /// Determine whether a model needs range or precision
    ///
    /// Trains the model of the first f32 training cell of a suite, then tests it with matmuls in formats with fewer and fewer bits: in all
    /// layers at once, and in one layer at a time.
    Sensitivity(RunArguments),
    /// Check data sets
    #[command(subcommand)]
    Data(DataCommand),
    /// Print the JSON Schema of a record
    Schema,
    /// Print the build information of this program as JSON
    #[command(hide = true)]
    About,
    /// Run the cell that is read from standard input, or from the socket of a group
    #[command(hide = true)]
    Worker {
        /// Socket of the runner that started this process as a rank
        #[arg(long, value_name = "PATH")]
        group: Option<PathBuf>,
    },
}
