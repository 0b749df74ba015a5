//! What the articles say, tested on the cells of a run: which cells are pairs, what was measured of them, and the verdict in
//! words. Whether an interval confirms or refutes is `mantissa-analysis`' matter.

mod learnt;
mod pairs;
mod status;
mod verdict;
mod words;

pub(crate) use verdict::test;
pub use verdict::{ClaimVerdict, Standing};
pub(crate) use words::heading;
