//! The cheapest setting that keeps accuracy, or error, within a budget and fits a limit of memory, from the records of a run: with
//! the evidence, what was not tested, and the best practices that the records bear out.

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
