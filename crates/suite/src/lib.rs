//! Suite files (TOML) to validated plans.
//!
//! ```text
//! suites/*.toml ──load──▶ Suite ──plan──▶ mantissa_core::Plan
//! ```
//!
//! [`load`] checks a whole file before anything runs and reports everything that is wrong with it at once, each with
//! its line, its column and the nearest valid names. [`plan`] multiplies out workloads and axes of one profile.
//! `docs/suite-format.md` describes the format; its tables are generated from this crate's own list of keys.

mod axes;
mod claims;
mod diagnostic;
mod expect;
mod keys;
mod overrides;
mod plan;
mod section;
mod size;
mod suite;
mod workload;

pub use axes::Sweep;
pub use diagnostic::{Diagnostic, SuiteErrors};
pub use overrides::parse_override;
pub use plan::{PlanError, PlanOptions, StartingWeights, plan};
pub use suite::{Suite, load, parse};
