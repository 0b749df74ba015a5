//! Pure statistics: every number that a report prints comes with its interval, and the interval comes from here.
//!
//! Nothing here does I/O or reads a clock; what is random takes an explicit seed.

mod binomial;
mod bootstrap;
mod estimate;
mod ratio;
mod sample;

pub use binomial::wilson;
pub use bootstrap::{RESAMPLES, bootstrap_interval, median_estimate};
pub use estimate::{CONFIDENCE, Estimate, Interval};
pub use ratio::ratio;
pub use sample::Sample;
