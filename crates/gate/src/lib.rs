//! Regression gate for recorded runs.
//!
//! ```text
//! run folder ──RunMeasurements─▶ compare ──Comparison──▶ gate ──▶ exit code and reports in several formats
//! baselines/ ──Baselines───────▶    ▲
//!                          Policy ──┘
//! ```
//! This crate only reads records. It does not measure, and does not need a GPU.

mod baselines;
mod columns;
mod compare;
mod error;
mod gate_report;
mod history;
mod interleaving;
mod judge;
mod machine;
mod policy;
pub mod render;
mod run_measurements;
mod trend;

pub use baselines::{BaselineInfo, Baselines};
pub use compare::{
    Change, ChangeVerdict, ComparedCell, Comparison, Fences, Finding, FindingKind, Side, compare,
};
pub use error::GateError;
pub use gate_report::{AllowedFailure, Failure, Gate, GateReport};
pub use history::{Entry, History, Series};
pub use machine::{Mismatch, Part, machine_name};
pub use policy::{Allowance, Day, Policy};
pub use run_measurements::{MeasuredCell, Process, Reading, RunMeasurements, program_of, same_program};
pub use trend::{ChangePoint, Point, Trend};
