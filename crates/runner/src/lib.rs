//! Execution of a plan: runs every cell in a new worker process and stores every result as a record in the run folder.
//!
//! ```text
//! run ─▶ schedule ─▶ process ──stdin: Request──▶ worker (own process: workload + telemetry)
//!           │           ◀──stdout: Message lines──┘
//!           └─▶ folder: samples synced, then the record line appended and synced
//! ```
//!
//! The command line calls [`start`] or [`resume`]. This crate does not link burn. It queries devices through the trait
//! [`Engine`], which the crate `mantissa-worker` implements.

mod command;
mod cooldown;
mod devices;
mod engine;
mod error;
mod executor;
mod exit;
mod expect;
mod failure_hint;
mod fingerprint;
mod folder;
mod gpu_contention;
mod inputs;
mod kernel_checks;
mod ledger;
mod message;
mod order;
mod policy;
mod pre_cell;
mod precompile;
mod process;
mod program_info;
mod progress;
mod rank_connection;
mod rerun;
mod resource_limits;
mod run;
mod schedule;
mod side_by_side;
mod stop;
#[cfg(test)]
extern crate self as mantissa_runner;
#[cfg(test)]
#[path = "../tests/hostile/mod.rs"]
mod hostile;
#[cfg(test)]
mod testing;

pub use command::this_command;
pub use devices::{BackendState, backends, choose_backend};
pub use engine::{Engine, KernelToCheck};
pub use error::RunError;
pub use executor::{CellResult, Executor};
pub use exit::{WorkerExit, is_out_of_memory, oom_kills};
pub use expect::Violation;
pub use fingerprint::fingerprint;
pub use folder::{CACHE, RunFolder, RunSettings, read_plan_and_settings, write_samples};
pub use kernel_checks::{check_kernels, checks_in};
pub use ledger::Ledger;
pub use message::{Advance, Finished, Job, MemorySoFar, Message, Request};
pub use order::Order;
pub use policy::{Busy, COOL_DOWN_SECONDS, Policy};
pub use precompile::{Precompiled, precompile};
pub use program_info::ProgramInfo;
pub use progress::{Progress, ProgressEvent, ProgressUpdate};
pub use rank_connection::connect_rank;
pub use rerun::prepare_rerun;
pub use resource_limits::{prepare_threads, survive_file_size_limit};
pub use run::{Finish, ResumeChanges, SkippedSuite, Start, default_repeats, planned, resume, start};
pub use schedule::{Schedule, Stopped};
pub use stop::{Signal, Stop};
