//! What got worse between two runs, told so that a CI can stop it.
//!
//! ```text
//! run folder ──Measured──▶ compare ──Comparison──▶ gate ──▶ exit code, and words for wherever they are read
//! baselines/ ──Baselines─▶    ▲
//!                    Policy ──┘
//! ```
//! Nothing here measures: it needs the records and no GPU.

mod baselines;
mod columns;
mod compare;
mod error;
mod gated;
mod history;
mod judge;
mod machine;
mod measured;
mod policy;
pub mod told;
mod trend;
mod turns;

pub use baselines::{Baselines, Saved};
pub use compare::{Change, ComparedCell, Comparison, Fences, Finding, FindingKind, Outcome, Side, compare};
pub use error::GateError;
pub use gated::{AllowedFailure, Failure, Gate, Gated};
pub use history::{Entry, History, Series};
pub use machine::{Mismatch, Part, machine_name};
pub use measured::{Measured, MeasuredCell, Process, Reading, program_of, same_program};
pub use policy::{Allowance, Day, Policy};
pub use trend::{Point, Trend, Turn};
