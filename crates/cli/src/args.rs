//! The command line.

use std::path::PathBuf;

use crate::{
    commands::bisect::Watched,
    written::{Export, Written},
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
  0 done, 1 the gate found a regression, 2 the command line or a file is wrong, 3 a cell failed
  or is not as its suite expects, 4 the machine lacks what was asked for, 5 the gate is undecided
  and was to be strict, 101 a bug, 130 stopped by Ctrl-C, 143 stopped by SIGTERM";

/// Measures what a number format costs and buys.
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
    /// Print the cells that suites expand to, with every skipped one and why
    Plan(PlanArguments),
    /// Write the report of recorded runs again; needs no GPU
    Report(ReportArguments),
    /// Give recorded runs to data frames, spreadsheets, papers and pull requests: every cell, the failed ones too
    Export(ExportArguments),
    /// Tell the cheapest setting that recorded runs show to keep accuracy, with the evidence and what was not tested; needs no GPU
    Advise(AdviseArguments),
    /// Tell what differs between two runs, cell by cell and metric by metric: better, worse, the same, or not to be told; needs no GPU
    Compare(CompareArguments),
    /// Hold a run to a baseline: exit code 1 if anything got worse by more than chance and by more than matters
    #[command(after_help = GATE_EXAMPLES)]
    Gate(GateArguments),
    /// Tell from the history of gated runs what turned for the worse or the better, and from which run on; needs no GPU
    #[command(after_help = HISTORY_EXAMPLES)]
    History(HistoryArguments),
    /// Find the commit that made a cell worse: `git bisect` in a work tree of its own, with the gate's verdict
    #[command(after_help = BISECT_EXAMPLES)]
    Bisect(BisectArguments),
    /// Test the commit that is checked out
    #[command(hide = true)]
    BisectStep(BisectStepArguments),
    /// Keep the records of runs to compare with
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Explain a number format: its bits, its limits, and what becomes of 1/3, 10⁶ and 65504·2
    Explain {
        /// f64, f32, tf32, bf16 or f16
        format: Format,
    },
    /// Show this machine's devices, and which formats each backend has
    Devices {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask the hardware which precision it executes under every setting; fails if one is not as asked for
    Probe(ProbeArguments),
    /// Check every GPU kernel that the autotuner may choose
    ///
    /// Each candidate multiplies, convolves or attends small integers, whose sums are exact, in a process of its own. Results that differ
    /// from float64, crashes and timeouts are rows of the table, and the exit code is 3. `run` does the same for the kernels of its cells,
    /// once per card, driver and program, and uses only those that passed. `MANTISSA_WITHOUT=tma,specialized` leaves out candidates whose
    /// names contain one of the words; `MANTISSA_UNCHECKED_KERNELS=1` skips the checks.
    CheckKernels(CheckKernelsArguments),
    /// Ask a model whether it is range or precision that it needs: train the first f32 training of a suite, then test it
    /// with its products in formats of fewer and fewer bits, all layers and one by one
    Sensitivity(RunArguments),
    /// Look at data before it is used
    #[command(subcommand)]
    Data(DataCommand),
    /// Print the JSON Schema of a record
    Schema,
    /// Print what this program was built from, as JSON
    #[command(hide = true)]
    About,
    /// Run the cell on standard input
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Read every example of a data set and tell what is in it; fails at the first that is wrong
    Check {
        /// What `--data` takes
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
  0 nothing regressed, 1 something did, 2 what was given cannot be compared, 5 undecided and --strict";

const HISTORY_EXAMPLES: &str = "\
Examples:
  mantissa gate reports/change --baseline main --append && mantissa history
  mantissa history baselines/history.jsonl --page trends.html --parquet history.parquet

Exit codes:
  0 whatever is found, 2 the history cannot be read";

const BISECT_EXAMPLES: &str = "\
Examples:
  mantissa bisect v1.0 main -- suites/kernels/matmul.toml --profile smoke -a precision=bf16-true -a size=256
  mantissa bisect v1.0 main --build 'cargo build --release -p trainer' --program target/release/trainer -- own.toml";

#[derive(Debug, Args)]
pub(crate) struct BisectArguments {
    /// A commit that is good
    pub(crate) good: String,
    /// A later commit that is worse
    pub(crate) bad: String,
    /// What builds a commit, in its root
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "cargo build --release -p mantissa"
    )]
    pub(crate) build: String,
    /// What it builds
    #[arg(long, value_name = "PATH", default_value = "target/release/mantissa")]
    pub(crate) program: PathBuf,
    /// Processes of each side for each commit
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=100))]
    pub(crate) repeats: u32,
    /// What a change must be to matter [default: `baselines/gate.toml`, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// What `mantissa run` is given: best a single cell, as in the command of a record
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
    /// The program of the good commit
    #[arg(long)]
    pub(crate) good: PathBuf,
    /// Where its runs go
    #[arg(long)]
    pub(crate) runs: PathBuf,
    /// What is worse at the bad commit, as `CELL:METRIC` or `CELL:`
    #[arg(long, required = true)]
    pub(crate) watch: Vec<Watched>,
    #[arg(last = true)]
    pub(crate) run: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Save the records of a run under a name, in place of what was saved for the same machine, backend and profile
    Save {
        /// The name, e.g. `main`
        name: String,
        /// The run folder
        run: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// List what is saved
    List {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what was saved under a name, as JSON
    Show {
        /// The name
        name: String,
        /// For this machine alone, as `list` calls it
        #[arg(long)]
        machine: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Delete what was saved under a name
    Drop {
        /// The name
        name: String,
        /// For this machine alone, as `list` calls it
        #[arg(long)]
        machine: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// Where baselines lie.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The folder of baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(crate) baselines: PathBuf,
}

/// How two runs are judged.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// The folder of baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(crate) baselines: PathBuf,
    /// What a change must be to matter [default: `gate.toml` in the folder of baselines, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Earlier runs, from which noise is learned [default: `history.jsonl` in the folder of baselines]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Parts that may differ between the machines: gpu, driver, cpu, cores, backend, profile, build, framework, data
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    pub(crate) allow_mismatch: Vec<Part>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// A run folder, or the name or folder of a baseline: what is compared with
    #[arg(value_name = "A")]
    pub(crate) baseline: String,
    /// A run folder: what is compared
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
    /// The run folder; several count as one, whose processes took turns with the baseline's
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// The name of a baseline, or the folder of a baseline or a run; may be given again for runs that took turns
    #[arg(long, value_name = "BASELINE", required = true)]
    pub(crate) baseline: Vec<String>,
    #[command(flatten)]
    pub(crate) judging: Judging,
    /// Fail if anything is undecided, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// How often what is undecided is measured again, by twice as many processes each time
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=8))]
    pub(crate) rerun_inconclusive: u32,
    /// The program that measured the baseline: it takes turns with this one, which has to be the one that measured the run, when something is
    /// measured again
    #[arg(long, value_name = "PROGRAM", requires = "rerun_inconclusive")]
    pub(crate) against: Option<PathBuf>,
    /// Write what was found in a format into a file (`-`: standard output): markdown, annotations, junit, json, bencher, openmetrics, mlperf,
    /// benchmark-smaller, benchmark-bigger
    #[arg(long, value_name = "FORMAT=FILE")]
    pub(crate) write: Vec<Written>,
    /// Append the run to the history, whatever is found
    #[arg(long)]
    pub(crate) append: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// The history that `mantissa gate --append` wrote [default: baselines/history.jsonl]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What a change must be to matter [default: `gate.toml` beside the history, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Write a page with figures of what turned and a table of every trend
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
    /// Write the history as Parquet: a row a run, cell and metric
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
    /// Points of test accuracy that a setting may lose against 32-true with matmul highest: the upper end of the interval of its loss
    /// counts [default: 1]
    #[arg(long, value_name = "POINTS", value_parser = parse_points, allow_hyphen_values = true)]
    pub(crate) accuracy_loss: Option<f64>,
    /// Relative error that a kernel may have [default: none is chosen for kernels]
    #[arg(long, value_name = "MAX", value_parser = parse_error, allow_hyphen_values = true)]
    pub(crate) error: Option<f64>,
    /// Peak of memory that may be reached, e.g. `24GiB` or `40GB` [default: any]
    #[arg(long, value_name = "LIMIT", value_parser = parse_memory, allow_hyphen_values = true)]
    pub(crate) memory: Option<f64>,
    /// What is to be as little as possible: time, energy or memory [default: time]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub(crate) minimise: Option<GoalChoice>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is to be as little as possible.
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
    /// Tell what each cell with a model will keep in memory, the largest first: estimated from its shapes, nothing is run
    #[arg(long)]
    pub(crate) memory: bool,
    /// Of one profile alone [default: all three]
    #[arg(long, requires = "memory")]
    pub(crate) profile: Option<Profile>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Vocabulary for WordPiece, one token a line [default: made from the training part]; of a language model its `tokenizer.json`,
    /// SentencePiece model, or llama2.c's `tok*.bin`
    #[arg(
        long,
        value_name = "PATH",
        env = "MANTISSA_VOCABULARY",
        hide_env_values = true
    )]
    pub(crate) vocabulary: Option<PathBuf>,
    /// Fresh processes for each cell [default: 3 under `standard`, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_REPEATS)))]
    pub(crate) repeats: Option<u32>,
    /// How often a cell that fails or runs out of time is tried again at once [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// `rounds`: one repeat of every cell before the next, cells rotating; `sorted`: all repeats of a cell, then the
    /// next cell [default: rounds]
    #[arg(long, value_name = "ORDER", hide_possible_values = true)]
    pub(crate) order: Option<OrderChoice>,
    /// Longest wait for a GPU to cool down before a cell; with 0 nothing is waited for, and the power of the idle GPU is
    /// not read before the first cell either [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) cool_down: Option<f64>,
    /// When another process computes on the GPU before or during a cell: `warn` in the record, `wait` up to ten minutes for it to
    /// go, or `fail` [default: warn]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub(crate) busy: Option<BusyChoice>,
    /// Let another framework compute: the command of a program such as `python3 -m mantissa_torch` (peers/README.md); a resumed run
    /// needs it again
    #[arg(long, value_name = "COMMAND")]
    pub(crate) peer: Option<String>,
    /// The run folder [default: reports/<UTC time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run what an earlier run lacks, by the plan in its folder; with a larger `--repeats`, until it has as many
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = [
            "suites", "all", "overrides", "filter", "retries", "order", "cool_down", "busy", "out", "dry_run",
            "init", "precompile"
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// Compile the kernels of all GPU cells first, on all cores; `--precompile=only` measures nothing
    #[arg(
        long,
        value_name = "WHAT",
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

/// When kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precompile {
    /// Before the first cell.
    First,
    /// Without a run.
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
    /// csv (a row a cell and metric), csv-wide (a row a cell), parquet (the rows of csv, typed), latex or markdown (a table a workload); of one
    /// run for programs that keep the numbers of many: bencher, openmetrics, mlperf, benchmark-smaller, benchmark-bigger
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Export,
    /// The file, which Parquet needs [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// These metrics alone, e.g. `train_seconds,test_accuracy` [default: all]
    #[arg(long = "metric", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) metrics: Vec<MetricName>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// One report of them all, settings matched, every run beside the first one
    #[arg(long, requires = "out")]
    pub(crate) side_by_side: bool,
    /// Print what the report of each run says as JSON, and write nothing
    #[arg(long, conflicts_with = "side_by_side")]
    pub(crate) json: bool,
    /// Where the report is written, of several runs each into a folder of its run's name [default: the run folder]
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckKernelsArguments {
    /// Check kernels again that were checked on this card, driver and program
    #[arg(long)]
    pub(crate) again: bool,
    /// Print the results as JSON lines instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// What executes: auto, cuda, vulkan or flex (the CPU) [default: auto]
    #[arg(long, env = "MANTISSA_BACKEND", hide_env_values = true)]
    backend: Option<BackendChoice>,
    /// Values of an axis, e.g. `fusion=on,off`
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
    /// The backend that was asked for by name.
    pub(crate) fn named_backend(&self) -> Option<Backend> {
        self.backend.and_then(BackendChoice::named)
    }
}

/// What a plan is made from.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Suite files, or names of suites under `suites/`
    #[arg(value_name = "SUITE")]
    pub(crate) suites: Vec<PathBuf>,
    /// All suites under `suites/`
    #[arg(long, conflicts_with = "suites")]
    pub(crate) all: bool,
    /// Values that replace an axis of the suites; may be given once for each axis
    #[arg(short = 'a', long = "axis", value_name = "AXIS=VALUE,…")]
    pub(crate) overrides: Vec<String>,
    /// How much of the suites: smoke, standard or full [default: standard with a CUDA device, else smoke]
    #[arg(long, env = "MANTISSA_PROFILE", hide_env_values = true)]
    pub(crate) profile: Option<Profile>,
    /// What executes: auto, cuda, vulkan or flex (the CPU) [default: auto]
    #[arg(long, env = "MANTISSA_BACKEND", hide_env_values = true)]
    pub(crate) backend: Option<BackendChoice>,
    /// Only cells whose workload or setting contains this, e.g. `precision=16-mixed`
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Labelled reviews (an aclImdb folder; TSV, CSV or JSON lines), images (CIFAR-10's binary batches, a folder a class) or running text; may
    /// be given once for each kind [default: synthetic data]
    #[arg(long, value_name = "PATH", env = "MANTISSA_DATA", hide_env_values = true)]
    pub(crate) data: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) columns: Columns,
    /// Weights to start from, of all workloads or of one: safetensors, whole or in shards, `.pth`, llama2.c's `.bin`, or a folder as
    /// Hugging Face has it, whose `config.json` says how large the model is [default: seeded initialisation, of the suite's size]
    #[arg(
        long,
        value_name = "[WORKLOAD=]PATH",
        env = "MANTISSA_WEIGHTS",
        hide_env_values = true
    )]
    pub(crate) weights: Vec<String>,
    /// `random`: start from seeded initialisation, where weights are needed too; `--weights` then says how large the models are, by a
    /// `config.json` or the header of a `.bin`
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub(crate) init: Option<Init>,
}

/// Where the label and the text of labelled rows are.
#[derive(Debug, Default, Args)]
pub(crate) struct Columns {
    /// Column of the label: a name in the header line, a key of JSON lines, or a number from 1 [default: `label` and other usual names]
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

/// How a model starts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Init {
    /// From its seed.
    Random,
}

/// Which cell comes next.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OrderChoice {
    Rounds,
    Sorted,
}

/// What somebody else on the GPU means.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BusyChoice {
    Warn,
    Wait,
    Fail,
}

/// A time that can be waited for.
fn seconds(given: &str) -> Result<f64, String> {
    match given.parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("not a number of seconds from 0 on".into()),
    }
}

/// A backend, or whichever serves best here.
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
    /// The backend that was asked for by name.
    pub(crate) fn named_backend(&self) -> Option<Backend> {
        self.backend.and_then(BackendChoice::named)
    }
}
