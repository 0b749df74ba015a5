//! The command line.

use std::path::PathBuf;

use crate::{
    commands::bisect::Watched,
    output_format::{Export, Written},
};
use clap::{Args, Parser, Subcommand, ValueEnum};
use mantissa_core::{Backend, Format, MetricName, Profile};
use mantissa_gate::Part;
use mantissa_inputs::data::ColumnNames;
use mantissa_report::{Goal, parse_error, parse_memory, parse_points};
use mantissa_runner::MOST_REPEATS;

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
    /// Run the cell that is read from standard input
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Read every example of a data set and print a summary
    ///
    /// Fails at the first invalid example.
    Check {
        /// Path of the data, as for `--data`
        path: PathBuf,
        #[command(flatten)]
        columns: Columns,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const GATE_EXAMPLES: &str = "\
Examples:
  mantissa run matmul --profile smoke --repeats 5 --out reports/main && mantissa baseline save main reports/main
  mantissa gate reports/change --baseline main
  mantissa gate reports/change --baseline main --write markdown=summary.md --write annotations=-
  mantissa gate reports/change --baseline main --rerun-inconclusive 2 --against target/main/mantissa

Exit codes:
  0 no regression, 1 a regression, 2 the runs cannot be compared, 5 inconclusive with `--strict`";

const HISTORY_EXAMPLES: &str = "\
Examples:
  mantissa gate reports/change --baseline main --append && mantissa history
  mantissa history baselines/history.jsonl --page trends.html --parquet history.parquet

Exit codes:
  0 success, with or without changes; 2 the history cannot be read";

const BISECT_EXAMPLES: &str = "\
Examples:
  mantissa bisect v1.0 main -- suites/kernels/matmul.toml --profile smoke -a precision=bf16-true -a size=256
  mantissa bisect v1.0 main --build 'cargo build --release -p trainer' --program target/release/trainer -- own.toml";

#[derive(Debug, Args)]
pub(crate) struct BisectArguments {
    /// Commit without the regression
    pub(crate) good: String,
    /// Later commit with the regression
    pub(crate) bad: String,
    /// Build each commit with this command, in the root of its work tree
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "cargo build --release -p mantissa"
    )]
    pub(crate) build: String,
    /// Program that the build command creates
    #[arg(long, value_name = "PATH", default_value = "target/release/mantissa")]
    pub(crate) program: PathBuf,
    /// Run N processes per program and commit
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=100))]
    pub(crate) repeats: u32,
    /// Policy file with regression thresholds
    ///
    /// [default: `baselines/gate.toml`, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Arguments of `mantissa run`
    ///
    /// They should select a single cell, as the command in a record does.
    #[arg(last = true, required = true, value_name = "ARGUMENTS OF RUN")]
    pub(crate) run: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BisectStepArguments {
    #[arg(long)]
    pub(crate) build: String,
    #[arg(long)]
    pub(crate) program: PathBuf,
    #[arg(long)]
    pub(crate) repeats: u32,
    #[arg(long)]
    pub(crate) policy: Option<PathBuf>,
    /// Program of the good commit
    #[arg(long)]
    pub(crate) good: PathBuf,
    /// Folder for the runs
    #[arg(long)]
    pub(crate) runs: PathBuf,
    /// Regression at the bad commit, as `CELL:METRIC` or `CELL:`
    #[arg(long, required = true)]
    pub(crate) watch: Vec<Watched>,
    #[arg(last = true)]
    pub(crate) run: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Save the records of a run under a name
    ///
    /// Replaces the records with this name from the same machine, backend and profile.
    Save {
        /// Name of the baseline, e.g. `main`
        name: String,
        /// Run folder
        run: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// List the saved baselines
    List {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the records saved under a name, as JSON
    Show {
        /// Name of the baseline
        name: String,
        /// Select only this machine, by its name in `list`
        #[arg(long)]
        machine: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Delete the records saved under a name
    Drop {
        /// Name of the baseline
        name: String,
        /// Select only this machine, by its name in `list`
        #[arg(long)]
        machine: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// Location of the baselines.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Folder of baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(crate) baselines: PathBuf,
}

/// Options for comparing two runs.
#[derive(Debug, Args)]
pub(crate) struct Judging {
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

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Run to compare with: a run folder, or a baseline's name or folder
    #[arg(value_name = "A")]
    pub(crate) baseline: String,
    /// Run folder to compare
    #[arg(value_name = "B")]
    pub(crate) candidate: PathBuf,
    #[command(flatten)]
    pub(crate) judging: Judging,
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
    pub(crate) judging: Judging,
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
    /// Write the result to a file in a format (`-`: standard output)
    ///
    /// Formats: markdown, annotations, junit, json, bencher, openmetrics, mlperf, benchmark-smaller, benchmark-bigger. Can be repeated.
    #[arg(long, value_name = "FORMAT=FILE")]
    pub(crate) write: Vec<Written>,
    /// Append the run to the history, whatever the verdict
    #[arg(long)]
    pub(crate) append: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// History written by `mantissa gate --append`
    ///
    /// [default: baselines/history.jsonl]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Policy file with regression thresholds
    ///
    /// [default: `gate.toml` next to the history, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Write a page with plots of the changes and a table of all trends
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
    /// Write the history as Parquet, one row per run, cell and metric
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    /// Print the trends as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Limit the loss of test accuracy, in percentage points [default: 1]
    ///
    /// The loss is against 32-true with matmul highest. The limit applies to the upper end of its confidence interval.
    #[arg(long, value_name = "POINTS", value_parser = parse_points, allow_hyphen_values = true)]
    pub(crate) accuracy_loss: Option<f64>,
    /// Limit the relative error of a kernel
    ///
    /// [default: no setting is recommended for kernels]
    #[arg(long, value_name = "MAX", value_parser = parse_error, allow_hyphen_values = true)]
    pub(crate) error: Option<f64>,
    /// Limit the peak memory, e.g.  `24GiB` or `40GB` [default: no limit]
    #[arg(long, value_name = "LIMIT", value_parser = parse_memory, allow_hyphen_values = true)]
    pub(crate) memory: Option<f64>,
    /// Minimise time, energy or memory [default: time]
    #[arg(long, value_name = "GOAL", hide_possible_values = true)]
    pub(crate) minimise: Option<GoalChoice>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Quantity to minimise.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GoalChoice {
    Time,
    Energy,
    Memory,
}

impl From<GoalChoice> for Goal {
    fn from(choice: GoalChoice) -> Self {
        match choice {
            GoalChoice::Time => Self::Time,
            GoalChoice::Energy => Self::Energy,
            GoalChoice::Memory => Self::Memory,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Estimate the memory of each cell with a model, largest first
    ///
    /// The estimate is computed from the shapes. Nothing is run.
    #[arg(long)]
    pub(crate) memory: bool,
    /// List only this profile [default: all three]
    #[arg(long, requires = "memory")]
    pub(crate) profile: Option<Profile>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Vocabulary file
    ///
    /// For WordPiece, a file with one token per line. For a language model, its `tokenizer.json`, SentencePiece model, or llama2.c's `tok*.bin`.
    /// [default: built from the training part]
    #[arg(
        long,
        value_name = "PATH",
        env = "MANTISSA_VOCABULARY",
        hide_env_values = true
    )]
    pub(crate) vocabulary: Option<PathBuf>,
    /// Run each cell in N processes [default: 3 under `standard`, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_REPEATS)))]
    pub(crate) repeats: Option<u32>,
    /// Retry a cell that fails or times out up to N times [default: 0]
    ///
    /// The cell is retried immediately.
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Order of the repeats: `rounds` or `sorted` [default: rounds]
    ///
    /// `rounds` runs one repeat of every cell before the next repeat, and rotates the cells. `sorted` runs all repeats of a cell before the next
    /// cell.
    #[arg(long, value_name = "ORDER", hide_possible_values = true)]
    pub(crate) order: Option<OrderChoice>,
    /// Wait at most this long for a GPU to cool down [default: 10]
    ///
    /// Applies before each cell. With 0, the idle power of the GPU is not measured before the first cell either.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) cool_down: Option<f64>,
    /// Action if another process uses the GPU [default: warn]
    ///
    /// Applies before and during each cell. `warn` writes a warning to the record, `wait` waits up to ten minutes for the process to finish, and
    /// `fail` fails the cell.
    #[arg(long, value_name = "ACTION", hide_possible_values = true)]
    pub(crate) busy: Option<BusyChoice>,
    /// Compute with another framework, run by this command
    ///
    /// The command starts a program such as `python3 -m mantissa_torch` (see peers/README.md). A resumed run needs the option again.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) peer: Option<String>,
    /// Write to this run folder [default: reports/<UTC time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run the missing cells of an earlier run
    ///
    /// The plan is read from its folder. With a larger `--repeats`, runs each cell until it has that many repeats.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = [
            "suites", "all", "overrides", "filter", "retries", "order", "cool_down", "busy", "out", "dry_run",
            "init", "precompile"
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// Compile the kernels of all GPU cells first, on all cores
    ///
    /// `--precompile=only` compiles them and measures nothing.
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "first",
        hide_possible_values = true
    )]
    pub(crate) precompile: Option<Precompile>,
    /// Print the plan and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the records as JSON lines instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Point in time at which kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precompile {
    /// Before the first cell.
    First,
    /// Without running any cell.
    Only,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Format: csv, csv-wide, parquet, latex, markdown, …
    ///
    /// Tables of one or several runs: csv (one row per cell and metric), csv-wide (one row per cell), parquet (the rows of csv, with types),
    /// latex and markdown (one table per workload). Formats of a single run, for tools that track measurements over time: bencher, openmetrics,
    /// mlperf, benchmark-smaller, benchmark-bigger.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Export,
    /// Write to this file; required for Parquet [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Export only these metrics, e.g. `train_seconds,test_accuracy`
    ///
    /// [default: all]
    #[arg(long = "metric", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) metrics: Vec<MetricName>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Write one report that compares every run with the first one
    ///
    /// Settings are matched across the runs.
    #[arg(long, requires = "out")]
    pub(crate) side_by_side: bool,
    /// Print the report of each run as JSON and write nothing
    #[arg(long, conflicts_with = "side_by_side")]
    pub(crate) json: bool,
    /// Write the report to this folder [default: the run folder]
    ///
    /// The reports of several runs go to subfolders named after the runs.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckKernelsArguments {
    /// Repeat checks that are already recorded for this card and program
    ///
    /// By default, a kernel is checked once per card, driver and program.
    #[arg(long)]
    pub(crate) again: bool,
    /// Print the results as JSON lines instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// Compute on auto, cuda, vulkan or flex (the CPU) [default: auto]
    #[arg(long, env = "MANTISSA_BACKEND", hide_env_values = true)]
    backend: Option<BackendChoice>,
    /// Set the values of an axis, e.g. `fusion=on,off`
    #[arg(short = 'a', long = "axis", value_name = "AXIS=VALUE,…")]
    pub(crate) overrides: Vec<String>,
    /// Explain the instruction classes of the kernels
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print the records as JSON lines instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl ProbeArguments {
    /// Returns the backend if it was selected by name.
    pub(crate) fn named_backend(&self) -> Option<Backend> {
        self.backend.and_then(BackendChoice::named)
    }
}

/// Inputs of a plan.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Suite files, or names of suites under `suites/`
    #[arg(value_name = "SUITE")]
    pub(crate) suites: Vec<PathBuf>,
    /// Select all suites under `suites/`
    #[arg(long, conflicts_with = "suites")]
    pub(crate) all: bool,
    /// Replace the values of an axis of the suites
    ///
    /// Can be given once for each axis.
    #[arg(short = 'a', long = "axis", value_name = "AXIS=VALUE,…")]
    pub(crate) overrides: Vec<String>,
    /// Profile: smoke, standard or full
    ///
    /// It selects how much of the suites runs. [default: standard with a CUDA device, else smoke]
    #[arg(long, env = "MANTISSA_PROFILE", hide_env_values = true)]
    pub(crate) profile: Option<Profile>,
    /// Compute on auto, cuda, vulkan or flex (the CPU) [default: auto]
    #[arg(long, env = "MANTISSA_BACKEND", hide_env_values = true)]
    pub(crate) backend: Option<BackendChoice>,
    /// Select cells by workload or setting, e.g. `precision=16-mixed`
    ///
    /// A cell is selected if its workload or its setting contains the text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Read this data set [default: synthetic data]
    ///
    /// Labelled reviews (an aclImdb folder; TSV, CSV or JSON lines), images (CIFAR-10's binary batches, or one folder per class) or running
    /// text. Can be given once for each kind.
    #[arg(long, value_name = "PATH", env = "MANTISSA_DATA", hide_env_values = true)]
    pub(crate) data: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) columns: Columns,
    /// Start from these weights, in all workloads or in one
    ///
    /// Formats: safetensors, whole or in shards, `.pth`, llama2.c's `.bin`, or a folder in the layout of Hugging Face, whose `config.json` sets
    /// the size of the model. [default: seeded initialisation, in the size of the suite]
    #[arg(
        long,
        value_name = "[WORKLOAD=]PATH",
        env = "MANTISSA_WEIGHTS",
        hide_env_values = true
    )]
    pub(crate) weights: Vec<String>,
    /// Initialise models from the seed of the cell (`random`)
    ///
    /// Also applies to workloads that require weights. `--weights` then only sets the size of the models, by a `config.json` or the header of a
    /// `.bin`.
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    pub(crate) init: Option<Init>,
}

/// Columns of the label and the text in labelled rows.
#[derive(Debug, Default, Args)]
pub(crate) struct Columns {
    /// Column of the label [default: `label` and other usual names]
    ///
    /// A name in the header line, a key of JSON lines, or a number that counts from 1.
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,
    /// Column of the text [default: `text` and other usual names]
    #[arg(long, value_name = "NAME")]
    text_column: Option<String>,
}

impl Columns {
    pub(crate) fn names(&self) -> ColumnNames {
        ColumnNames {
            label: self.label_column.clone(),
            text: self.text_column.clone(),
        }
    }
}

/// Initialisation of a model.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Init {
    /// Random values from the seed of the cell.
    Random,
}

/// Order in which repeats of cells run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OrderChoice {
    Rounds,
    Sorted,
}

/// Reaction to another process on the GPU.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BusyChoice {
    Warn,
    Wait,
    Fail,
}

/// Parses a number of seconds that is finite and not negative.
fn seconds(given: &str) -> Result<f64, String> {
    match given.parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("expected a number of seconds, 0 or more".into()),
    }
}

/// A named backend, or the best one that is available.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BackendChoice {
    Auto,
    Named(Backend),
}

impl BackendChoice {
    fn named(self) -> Option<Backend> {
        match self {
            Self::Named(backend) => Some(backend),
            Self::Auto => None,
        }
    }
}

impl std::str::FromStr for BackendChoice {
    type Err = mantissa_core::UnknownName;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        if given == "auto" {
            Ok(Self::Auto)
        } else {
            let named: Result<Backend, _> = given.parse();
            named.map(Self::Named).map_err(|mut unknown: Self::Err| {
                unknown.valid.insert(0, "auto");
                unknown
            })
        }
    }
}

impl Selection {
    /// Returns the backend if it was selected by name.
    pub(crate) fn named_backend(&self) -> Option<Backend> {
        self.backend.and_then(BackendChoice::named)
    }
}
