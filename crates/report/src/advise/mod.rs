//! Advice from the records of a run: the cheapest setting within a budget of accuracy (or error) and memory, the evidence, what was not
//! tested, and the best practices that the records confirm.

mod budget;
mod candidate;
mod choice;
mod gaps;
mod rules;
mod text;
mod tokens;
mod told;
mod words;

pub use budget::{Budget, BudgetError, Goal, parse_error, parse_memory, parse_points};
pub use told::{Advice, Evidence, Fired, Measured, OfGroup, OfWork, advise};
