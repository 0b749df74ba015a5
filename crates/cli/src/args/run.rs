//! Arguments of `mantissa run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mantissa_core::MAX_REPEATS;

use super::{rendering::Rendering, selection::Selection};

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Vocabulary file
    ///
    /// For WordPiece, a file with one token per line. For a language model, its `tokenizer.json`, SentencePiece model, or llama2.c's `tok*.bin`.
    /// [default: that of the suite, else built from the training part]
    #[arg(
        long,
        value_name = "PATH",
        env = "MANTISSA_VOCABULARY",
        hide_env_values = true
    )]
    pub(crate) vocabulary: Option<PathBuf>,
    /// Run each cell in N processes [default: as in the suite]
    ///
    /// A suite that does not set it runs each cell in three processes under `standard`, and otherwise in one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPEATS)))]
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
    /// Start cells with several devices by this command [default: mpirun]
    ///
    /// A cell with `devices=N` trains in N processes, which Open MPI's `mpirun` starts on this machine. Pass its path, its options or both, such
    /// as `--mpirun "mpirun --oversubscribe"` for more processes than cores. Pass the option again
    /// to resume a run that was started with it. `--resume` also accepts it if no cell with several devices has
    /// finished without it.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) mpirun: Option<String>,
    /// Write to this run folder [default: reports/<UTC time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Save the trained weights of every training cell
    ///
    /// Writes `weights.safetensors` next to the raw samples of the cell, to evaluate them later with `--weights`.
    #[arg(long, conflicts_with = "peer")]
    pub(crate) save_weights: bool,
    /// Run the missing cells of an earlier run
    ///
    /// The plan is read from its folder. With a larger `--repeats`, runs each cell until it has that many repeats.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = [
            "suites", "all", "overrides", "filter", "retries", "order", "cool_down", "busy", "out", "dry_run",
            "init", "precompile", "save_weights"
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
    #[command(flatten)]
    pub(crate) rendering: Rendering,
    /// Print the records as JSON lines instead of tables
    #[arg(long, conflicts_with = "tables")]
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
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("expected a number of seconds, 0 or more".into()),
    }
}
