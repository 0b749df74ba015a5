//! Regression gate for recorded runs.
//!
//! ```text
//! run folder ──RunMeasurements─▶ compare ──Comparison──▶ gate ──▶ exit code and reports in several formats
//! baselines/ ──Baselines───────▶    ▲
//!                          Policy ──┘
//! ```
//! This crate only reads records. It does not measure, and does not need a GPU.

mod baseline_info;
mod baselines;
mod cell_collector;
mod columns;
mod compare;
mod comparison;
mod error;
mod executed_precision;
mod findings;
mod fingerprints;
mod gate_report;
mod history;
mod interleaving;
mod judge;
mod machine;
mod measured_cell;
mod mismatch;
mod pair;
mod policy;
pub mod render;
mod run_measurements;
mod setting_labels;
mod trend;

pub use baseline_info::BaselineInfo;
pub use baselines::Baselines;
pub use compare::compare;
pub use comparison::{Change, ChangeVerdict, ComparedCell, Comparison, Fences, Finding, FindingKind, Side};
pub use error::GateError;
pub use fingerprints::{describe_program, same_program};
pub use gate_report::{AllowedFailure, Failure, Gate, GateReport};
pub use history::{Entry, History, Series};
pub use machine::machine_name;
pub use measured_cell::{MeasuredCell, Process, Reading};
pub use mismatch::{Mismatch, Part};
pub use policy::{Allowance, Day, Policy};
pub use run_measurements::RunMeasurements;
pub use trend::{ChangePoint, Point, Trend};
