//! Result of comparing two runs: changes of metrics and other findings, cell by cell.

use std::collections::BTreeMap;

use mantissa_core::{Cell, CellId, MetricName, Profile};
use serde::Serialize;

use crate::{Mismatch, render::ChangeText};

/// Result of comparing two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Version of this format.
    pub schema: u32,
    /// Run or baseline to compare with.
    pub baseline: Side,
    /// The run under test.
    pub candidate: Side,
    /// Differences of machine, build, profile or data, all of them allowed.
    pub mismatches: Vec<Mismatch>,
    /// Cells that at least one side tried, ordered by suite, workload, setting and identity.
    pub cells: Vec<ComparedCell>,
}

impl Comparison {
    /// Returns true if any finding or metric has this verdict.
    pub fn any(&self, outcome: ChangeVerdict) -> bool {
        self.outcomes().any(|found| found == outcome)
    }

    /// Returns the verdicts on all findings and metrics.
    pub fn outcomes(&self) -> impl Iterator<Item = ChangeVerdict> {
        self.cells.iter().flat_map(ComparedCell::outcomes)
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Name of the run or the baseline.
    pub name: String,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// Name of the GPU, or of the CPU if there is no GPU.
    pub machine: String,
    /// Profile of the run.
    pub profile: Profile,
    /// Git revision of the program that ran.
    pub revision: Option<String>,
    /// Smallest number of processes of any cell that was tried.
    pub repeats: usize,
}

/// Comparison of one cell.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedCell {
    /// Identity of the cell.
    pub id: CellId,
    /// Suite of the cell.
    pub suite: String,
    /// Workload of the cell.
    pub workload: String,
    /// Axis values that distinguish the cell from the other cells of its workload.
    pub setting: String,
    /// Changes of properties other than metrics.
    pub findings: Vec<Finding>,
    /// Changes of the metrics that both sides have.
    pub changes: Vec<Change>,
    /// Command that measures the cell again.
    pub command: String,
    /// The cell.
    #[serde(skip)]
    pub cell: Cell,
}

impl ComparedCell {
    /// Returns the verdicts on all findings and metrics of the cell.
    pub fn outcomes(&self) -> impl Iterator<Item = ChangeVerdict> {
        let findings = self.findings.iter().map(|finding| finding.verdict);
        findings.chain(self.changes.iter().map(|change| change.verdict))
    }

    /// Returns the worst verdict.
    pub fn outcome(&self) -> Option<ChangeVerdict> {
        self.outcomes().min()
    }
}

/// Change of a property other than a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Verdict on the change.
    pub verdict: ChangeVerdict,
    /// Description of the change.
    pub text: String,
}

/// Kind of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The candidate did not run the cell.
    Vanished,
    /// The baseline did not run the cell.
    New,
    /// The exit status of processes changed.
    Status,
    /// The precision observed in hardware changed.
    Executed,
    /// Other kernels ran.
    Kernel,
    /// A metric or an observation of the baseline is missing in the candidate.
    Lost,
}

impl FindingKind {
    /// Returns the name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vanished => "vanished",
            Self::New => "new",
            Self::Status => "status",
            Self::Executed => "executed",
            Self::Kernel => "kernel",
            Self::Lost => "lost",
        }
    }
}

/// Verdict on a change, ordered from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// Significantly worse, and by more than the threshold.
    Regressed,
    /// The data do not support a verdict.
    Inconclusive,
    /// Different, without being better or worse.
    Changed,
    /// Shown to be equivalent.
    Unchanged,
    /// Significantly better, and by more than the threshold.
    Improved,
}

impl ChangeVerdict {
    /// Returns the name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Inconclusive => "inconclusive",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Improved => "improved",
        }
    }
}

/// Change of a metric of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The metric.
    pub metric: MetricName,
    /// Median over the baseline's processes.
    pub baseline: f64,
    /// Median over the candidate's processes.
    pub candidate: f64,
    /// Numbers of compared values of baseline and candidate. With enough runs, each value is the median of a run; otherwise the value of a
    /// process.
    pub processes: (usize, usize),
    /// True if `change` is a difference in the metric's unit; otherwise it is a ratio.
    pub difference: bool,
    /// Smallest relevant change: a relative change (0.03 is 3 %), or a difference in the metric's unit.
    pub floor: f64,
    /// The larger of `floor` and the run-to-run noise in the history of this cell.
    pub threshold: f64,
    /// Verdict on the change.
    pub verdict: ChangeVerdict,
    /// Reason for an inconclusive verdict; otherwise empty.
    pub doubt: String,
    /// Ratio candidate / baseline, or difference candidate − baseline.
    pub change: Option<f64>,
    /// Confidence interval of `change`.
    pub interval: Option<(f64, f64)>,
    /// p-value of the change.
    pub p: Option<f64>,
    /// p-value after Holm's correction for all comparisons.
    pub adjusted_p: Option<f64>,
    /// Change that all cells of the metric have in common, as a ratio candidate / baseline, if it was subtracted; otherwise 1.
    pub drift: f64,
    /// Smallest true change that is detected with a power of 95 %, for this number of processes and this noise.
    pub catches: Option<f64>,
}

impl Change {
    /// Returns true if this cell's history raises the threshold above the floor.
    pub fn is_fenced(&self) -> bool {
        self.threshold > self.floor
    }

    /// Returns a one-line description: `step_seconds: 1.00 s → 1.25 s, +25.0 % [+20.0 %, +30.0 %], p 0.0004`.
    pub fn text(&self) -> String {
        ChangeText::sentence(self)
    }
}

/// Run-to-run noise of each cell and metric: a relative change, or a difference in the metric's unit for accuracies and losses.
pub type Fences = BTreeMap<(CellId, MetricName), f64>;
