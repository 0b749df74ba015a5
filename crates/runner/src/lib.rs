//! From a plan to a run folder: every cell in a fresh worker process, every result a record.
//!
//! ```text
//! run ─▶ schedule ─▶ process ──stdin: Request──▶ worker (own process: workload + telemetry)
//!           │           ◀──stdout: Message lines──┘
//!           └─▶ folder: samples synced, then the record line appended and synced
//! ```
//!
//! The command line calls [`start`] or [`resume`], and [`worker`] in the worker process.

mod command;
mod devices;
mod error;
mod expect;
mod fingerprint;
mod folder;
mod message;
mod process;
mod run;
mod schedule;
mod summarise;
#[cfg(test)]
mod testing;
mod worker;

pub use devices::{BackendState, backends, choose_backend};
pub use error::RunError;
pub use expect::{Violation, violations};
pub use fingerprint::fingerprint;
pub use folder::{RunFolder, RunSettings};
pub use mantissa_workloads::{Inputs, Phase};
pub use message::{Finished, Request};
pub use run::{Finish, Start, default_repeats, planned, resume, start};
pub use schedule::{Ended, Executor, Progress, ProgressEvent, Schedule, Told};
pub use summarise::{Measurements, summarise};
pub use worker::{WorkerExit, worker};

/// An allocator that counts: a program that makes it its global one knows what its tensors on the CPU take.
pub use peak_alloc::PeakAlloc as CountingAllocator;
