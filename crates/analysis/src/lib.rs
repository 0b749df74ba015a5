//! Pure statistics: every number that a report prints comes with its interval, and the interval comes from here.
//!
//! Nothing here does I/O or reads a clock; what is random takes an explicit seed. What each statistic means and how
//! well its intervals cover is in `docs/methodology.md`.

mod binomial;
mod bootstrap;
mod estimate;
mod fair_coin;
mod mann_whitney;
mod median;
mod normal;
mod ranks;
mod ratio;
mod sample;
mod settling;
mod stopping;

pub use binomial::wilson;
pub use bootstrap::{RESAMPLES, bca_interval, bootstrap_interval};
pub use estimate::{CONFIDENCE, Estimate, Interval};
pub use mann_whitney::{MannWhitney, mann_whitney, smallest_p};
pub use median::{MEDIAN_INTERVAL_FROM, median, median_estimate, median_interval};
pub use ratio::ratio;
pub use sample::Sample;
pub use settling::{WarmUp, Warmth, settled};
pub use stopping::{
    Decision, LOOK_GROWTH, LOOKS_IN_A_ROW, MIN_SAMPLES, StopReason, Stopping, StoppingRule, StoppingRuleError,
};
