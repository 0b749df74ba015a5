//! Parser and planner of suite files (TOML).
//!
//! ```text
//! suites/*.toml ──load──▶ Suite ──plan──▶ mantissa_core::Plan
//! ```
//!
//! [`load`] checks a whole file before anything runs and reports all errors at once, each with its line, its column and the nearest valid
//! names. [`plan`] computes the cells of one profile: the Cartesian product of its workloads and axes. `docs/suite-format.md` describes the
//! format; its tables are generated from this crate's list of keys.

mod axes;
mod claims;
mod diagnostic;
mod expect;
mod inputs;
mod keys;
mod overrides;
mod plan;
mod section;
mod size;
mod suite;
mod workload;

pub use axes::Sweep;
pub use diagnostic::{Diagnostic, SuiteErrors};
pub use inputs::SuiteInputs;
pub use overrides::parse_override;
pub use plan::{PlanError, PlanOptions, StartingWeights, plan};
pub use suite::{Suite, load, parse};
