//! From a plan to a run folder: every cell in a fresh worker process, every result a record.
//!
//! ```text
//! run ─▶ schedule ─▶ process ──stdin: Request──▶ worker (own process: workload + telemetry)
//!           │           ◀──stdout: Message lines──┘
//!           └─▶ folder: samples synced, then the record line appended and synced
//! ```
//!
//! The command line calls [`start`] or [`resume`], and [`worker`] in the worker process.

mod about;
mod advice;
mod again;
mod between;
mod command;
mod company;
mod devices;
mod error;
mod exhaustion;
mod expect;
mod fingerprint;
mod folder;
mod heap;
mod inputs;
mod ledger;
mod message;
mod order;
mod policy;
mod process;
mod rest;
mod run;
mod schedule;
mod stop;
mod summarise;
#[cfg(test)]
extern crate self as mantissa_runner;
#[cfg(test)]
#[path = "../tests/hostile/mod.rs"]
mod hostile;
#[cfg(test)]
mod testing;

mod worker;

pub use about::About;
pub use again::again;
pub use command::this_command;
pub use devices::{BackendState, backends, choose_backend};
pub use error::RunError;
pub use exhaustion::{prepare_threads, survive_file_size_limit};
pub use expect::Violation;
pub use fingerprint::fingerprint;
pub use folder::{CACHE, MOST_REPEATS, RunFolder, RunSettings, recorded};
pub use ledger::Ledger;
pub use mantissa_workloads::{
    Examples, Inputs, MemoryEstimate, OwnModel, Phase, Workload, burn, data, estimate, model_of,
};
pub use message::{Finished, MemorySoFar, Request};
pub use order::Order;
pub use policy::{Busy, COOL_DOWN_SECONDS, Policy};
pub use run::{Finish, SkippedSuite, Start, default_repeats, planned, resume, start};
pub use schedule::{Ended, Executor, Progress, ProgressEvent, Schedule, Stopped, Told};
pub use stop::{Signal, Stop};
pub use summarise::{Measurements, summarise};
pub use worker::{WorkerExit, worker};
