//! Output formats of comparisons and measurements. The same input always gives the same bytes. Missing values are omitted.
//!
//! Formats of a comparison: [`markdown`] for pull requests, [`terminal_tables`], [`annotations`] for GitHub Actions, [`junit`]. Formats of
//! a run: [`benchmark_action`], [`bencher`], [`openmetrics`], [`mlperf`].

mod annotations;
mod bencher;
mod benchmark_action;
mod change_text;
mod escape;
mod junit;
mod markdown;
mod measurements;
mod mlperf;
mod openmetrics;
mod page;
mod summary;
mod terminal;
mod trends;

pub use annotations::annotations;
pub use bencher::bencher;
pub use benchmark_action::benchmark_action;
pub(crate) use change_text::ChangeText;
pub(crate) use escape::shorten;
pub use junit::junit;
pub use markdown::markdown;
pub use measurements::{CellEstimates, Measurements};
pub use mlperf::mlperf;
pub use openmetrics::openmetrics;
pub use page::MAX_COMMENT_LENGTH;
pub use terminal::terminal_tables;
