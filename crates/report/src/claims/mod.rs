//! Tests the claims of the articles on the cells of a run: pairs of cells, their measurements, and the verdict in words.
//! `mantissa-analysis` decides whether an interval confirms or refutes a claim.

mod learnt;
mod pairs;
mod status;
mod verdict;
mod words;

pub(crate) use verdict::test;
pub use verdict::{ClaimVerdict, Standing};
pub(crate) use words::heading;
