//! Advice from the records of a run: the cheapest setting within a budget of accuracy (or error) and memory, the evidence, the untested
//! settings, and the best practices that the records confirm.

mod budget;
mod choice;
mod conclusion;
mod gaps;
mod json;
mod recommendations;
mod rules;
mod sentences;
mod text;
mod tokens;
mod work;

pub(crate) use choice::{Choice, choices};
pub(crate) use conclusion::{Concluded, Conclusion, MIN_MEMORY_SAVING, Rejected, conclusions};
pub(crate) use json::workload_advice;
pub(crate) use recommendations::recommendations;
pub(crate) use sentences::listed;
pub(crate) use text::{outside_budget, table as evidence_table};

pub use budget::{Budget, BudgetError, Goal, parse_error, parse_memory, parse_points};
pub use json::{Advice, EstimateRecord, Evidence, FiredRule, WorkAdvice, WorkloadAdvice, advise};
