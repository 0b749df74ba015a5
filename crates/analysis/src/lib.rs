//! Pure statistics: every number that a report prints comes with its interval, and the interval comes from here.
//!
//! Nothing here does I/O or reads a clock; what is random takes an explicit seed. What each statistic means and how
//! well its intervals cover is in `docs/methodology.md`.

mod binomial;
mod bootstrap;
mod estimate;
mod fair_coin;
mod median;
mod normal;
mod ratio;
mod sample;

pub use binomial::wilson;
pub use bootstrap::{RESAMPLES, bca_interval, bootstrap_interval};
pub use estimate::{CONFIDENCE, Estimate, Interval};
pub use median::{MEDIAN_INTERVAL_FROM, median, median_estimate, median_interval};
pub use ratio::ratio;
pub use sample::Sample;
