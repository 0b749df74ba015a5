//! Statistics: estimates, confidence intervals and tests. The intervals of all reported numbers come from this crate.
//!
//! All functions are pure: they use no I/O and no clock, and random numbers have an explicit seed. `docs/methodology.md` describes each
//! statistic and the coverage of its intervals.

mod binomial;
mod binomial_half;
mod bootstrap;
mod change_points;
mod claims;
mod clusters;
mod equivalence;
mod estimate;
mod evidence;
mod gate;
mod hierarchical;
mod hodges_lehmann;
mod holm;
mod independence;
mod mann_whitney;
mod mcnemar;
mod median;
mod noise_fence;
mod normal;
mod over_seeds;
pub mod pareto;
mod prior;
mod range;
mod ranks;
mod ratio;
mod relevance;
mod sample;
mod sensitivity;
mod signed_rank;
mod spread;
mod stopping;
mod student;
mod verdict;
mod warm_up;
mod welch;

pub use binomial::{exact_share, wilson};
pub use bootstrap::{RESAMPLES, bca_interval, bootstrap_interval};
pub use change_points::{CHANGE_POINT_LEVEL, CHANGE_POINT_MAX_RUNS, ChangePoint, change_points};
pub use claims::{Finding, Tested, test_claim};
pub use clusters::{Cluster, MIN_CLUSTERS, cluster_interval};
pub use equivalence::{Equivalence, equivalence, equivalent_curves};
pub use estimate::{CONFIDENCE, Estimate, Interval};
pub use evidence::{Evidence, MIN_SEEDS, endings_missing};
pub use gate::{
    Change, Compared, GATE_LEVEL, GATE_MAX_DRIFT, GATE_MIN_DEVIATION, GATE_MIN_DRIFT_CELLS,
    GATE_MIN_PROGRAM_SHIFT, GATE_POWER, GATE_REPEATS, GateVerdict, Rules, examples_error, gate,
};
pub use hierarchical::{MIN_PROCESSES, Process, median_over_processes};
pub use hodges_lehmann::{hodges_lehmann_ratio, hodges_lehmann_ratio_within};
pub use holm::holm;
pub use independence::{SerialDependence, serial_dependence};
pub use mann_whitney::{MannWhitney, mann_whitney, mann_whitney_within, smallest_p};
pub use mcnemar::{PairedAccuracy, accuracy_difference, mcnemar, paired_accuracy};
pub use median::{MEDIAN_INTERVAL_MIN_VALUES, median, median_interval};
pub use noise_fence::{FENCE_MAX_RUNS, FENCE_MIN_RUNS, noise_fence};
pub use over_seeds::mean_over_seeds;
pub use prior::{MIN_PRIOR_GROUPS, Prior, prior};
pub use range::range_counts;
pub use ratio::ratio;
pub use relevance::{Floor, Scale};
pub use sample::Sample;
pub use sensitivity::{Sensitivity, TOLERATED_LOSS, keeps, min_bits};
pub use signed_rank::{Paired, paired};
pub use spread::{Label, OUTLIER_BEYOND, label_outliers, median_absolute_deviation};
pub use stopping::{
    Decision, LOOK_GROWTH, LOOKS_IN_A_ROW, MIN_SAMPLES, StopReason, Stopping, StoppingRule, StoppingRuleError,
};
pub use student::mean;
pub use verdict::{Doubt, Groups, Judgement, Verdict, judge};
pub use warm_up::{WarmUp, WarmUpState, settled};
pub use welch::{Welch, WelchTerms, welch, welch_ratio};
