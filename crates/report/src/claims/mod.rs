//! Tests the claims of the articles on the cells of a run: pairs of cells, their measurements, and the verdict as text.
//! `mantissa-analysis` decides whether an interval confirms or refutes a claim.

mod chance_accuracy;
mod endings;
mod pairs;
mod sentences;
mod status;
mod subject;
mod verdict;

pub(crate) use chance_accuracy::is_above_chance;
pub(crate) use sentences::note;
pub(crate) use verdict::test;
pub use verdict::{ClaimVerdict, OverallVerdict};
