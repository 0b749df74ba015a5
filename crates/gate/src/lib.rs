//! Regression gate for recorded runs.
//!
//! ```text
//! run folder ──Measured──▶ compare ──Comparison──▶ gate ──▶ exit code and reports in several formats
//! baselines/ ──Baselines─▶    ▲
//!                    Policy ──┘
//! ```
//! This crate only reads records. It measures nothing and needs no GPU.

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
