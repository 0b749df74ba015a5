//! Comparison of two runs, cell by cell: regressed, improved, unchanged or inconclusive.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_core::{Axis, Cell, CellId, Executed, ExecutedVerdict, Format, MetricName, Profile, Status};
use serde::Serialize;

use crate::{
    GateError, MeasuredCell, Mismatch, Part, Policy, RunMeasurements, judge::judge_all, render::ChangeText,
};

/// Result of comparing two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Version of this format.
    pub schema: u32,
    /// The reference run or baseline.
    pub baseline: Side,
    /// The run under test.
    pub candidate: Side,
    /// Allowed differences between the machines.
    pub mismatches: Vec<Mismatch>,
    /// All cells of either side, ordered by suite, workload, setting and identity.
    pub cells: Vec<ComparedCell>,
}

/// One side of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Name of the run or the baseline.
    pub name: String,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// Name of the GPU, else of the CPU.
    pub machine: String,
    /// Profile of the run.
    pub profile: Profile,
    /// Git revision of the program that ran.
    pub revision: Option<String>,
    /// Smallest number of processes of any cell.
    pub repeats: usize,
}

/// Cell of two runs.
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
    /// Observations that are not metrics.
    pub findings: Vec<Finding>,
    /// Metrics that both sides have.
    pub changes: Vec<Change>,
    /// Command that measures the cell again.
    pub command: String,
    /// The cell.
    #[serde(skip)]
    pub cell: Cell,
}

/// Change that is not a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Regressed, improved or neither.
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

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// Worse by more than the threshold, and not by chance.
    Regressed,
    /// The data do not support a verdict.
    Inconclusive,
    /// Different, without being better or worse.
    Changed,
    /// Shown to be equivalent.
    Unchanged,
    /// Better by more than the threshold, and not by chance.
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
    /// Number of processes on both sides.
    pub processes: (usize, usize),
    /// True if `change` is a difference in the metric's unit; otherwise it is a ratio.
    pub difference: bool,
    /// Smallest relevant change: a share, or a difference.
    pub floor: f64,
    /// The floor, raised to the noise that this cell's history shows.
    pub threshold: f64,
    /// Verdict on the change.
    pub verdict: ChangeVerdict,
    /// Reason of an inconclusive verdict; empty otherwise.
    pub doubt: String,
    /// Ratio candidate / baseline, or difference candidate − baseline.
    pub change: Option<f64>,
    /// Confidence interval of `change`.
    pub interval: Option<(f64, f64)>,
    /// p-value of the change.
    pub p: Option<f64>,
    /// p-value after Holm's correction for all comparisons.
    pub adjusted_p: Option<f64>,
    /// Common ratio of all cells of the metric that was attributed to the machine; 1 if none was.
    pub drift: f64,
    /// Smallest true change that would be detected with a power of 95 %, for this number of processes and this noise.
    pub catches: Option<f64>,
}

impl Change {
    /// Returns true if the threshold is above the floor because of this cell's history.
    pub fn is_fenced(&self) -> bool {
        self.threshold > self.floor
    }

    /// Returns a one-line description: `step_seconds: 1.00 s → 1.25 s, +25.0 % [+20.0 %, +30.0 %], p 0.0004`.
    pub fn text(&self) -> String {
        ChangeText::sentence(self)
    }
}

/// Compares a candidate with a baseline. `fences`: noise of each cell and metric, learned from a history.
///
/// # Errors
/// Fails if the machines differ in a part that is not in `allowed`, or the runs have no cell in common.
pub fn compare(
    baseline: &RunMeasurements,
    candidate: &RunMeasurements,
    policy: &Policy,
    allowed: &BTreeSet<Part>,
    fences: &Fences,
) -> Result<Comparison, GateError> {
    let mismatches = Mismatch::between(baseline, candidate);
    if mismatches
        .iter()
        .any(|mismatch| !allowed.contains(&mismatch.part))
    {
        return Err(GateError::Mismatch { mismatches });
    }
    let tried = |side: &RunMeasurements| -> BTreeSet<CellId> {
        let cells = side.cells.iter().filter(|(_, measured)| measured.was_tried());
        cells.map(|(id, _)| id.clone()).collect()
    };
    let (before, after) = (tried(baseline), tried(candidate));
    if before.is_disjoint(&after) {
        return Err(GateError::NothingInCommon {
            baseline: baseline.name.clone(),
            candidate: candidate.name.clone(),
        });
    }
    let all: Vec<&CellId> = before.union(&after).collect();
    let pairs: Vec<Pair<'_>> = all
        .iter()
        .map(|id| Pair {
            before: baseline.cells.get(*id).filter(|measured| measured.was_tried()),
            after: candidate.cells.get(*id).filter(|measured| measured.was_tried()),
            skipped: candidate.cells.get(*id).and_then(MeasuredCell::skip_reason),
        })
        .collect();
    let settings = Settings::of(pairs.iter().map(Pair::either));
    let mut judged = judge_all(&pairs, policy, fences).into_iter();
    let named: BTreeSet<MetricName> = policy.floors.keys().copied().collect();
    let mut cells: Vec<ComparedCell> = pairs
        .iter()
        .map(|pair| {
            let measured = pair.either();
            ComparedCell {
                id: measured.cell.id.clone(),
                suite: measured.cell.suite.clone(),
                workload: measured.cell.workload.name.clone(),
                setting: settings.label(measured),
                findings: pair.findings(&named, policy.repeats as usize),
                changes: judged.next().unwrap_or_default(),
                command: measured.command.clone(),
                cell: measured.cell.clone(),
            }
        })
        .collect();
    cells.sort_by(|a, b| {
        (&a.suite, &a.workload, &a.setting, &a.id).cmp(&(&b.suite, &b.workload, &b.setting, &b.id))
    });
    Ok(Comparison {
        schema: SCHEMA,
        baseline: Side::of(baseline),
        candidate: Side::of(candidate),
        mismatches,
        cells,
    })
}

/// Schema version of the output of `mantissa compare --json`.
const SCHEMA: u32 = 1;

/// Noise of each cell and metric: a share, or a difference if the metric is a learned one (accuracy, loss).
pub type Fences = BTreeMap<(CellId, MetricName), f64>;

impl Comparison {
    /// Returns true if any finding or metric has this outcome.
    pub fn any(&self, outcome: ChangeVerdict) -> bool {
        self.outcomes().any(|found| found == outcome)
    }

    /// Returns the outcomes of all findings and metrics.
    pub fn outcomes(&self) -> impl Iterator<Item = ChangeVerdict> {
        self.cells.iter().flat_map(ComparedCell::outcomes)
    }
}

impl ComparedCell {
    /// Returns the outcomes of all findings and metrics of the cell.
    pub fn outcomes(&self) -> impl Iterator<Item = ChangeVerdict> {
        let findings = self.findings.iter().map(|finding| finding.verdict);
        findings.chain(self.changes.iter().map(|change| change.verdict))
    }

    /// Returns the worst outcome.
    pub fn outcome(&self) -> Option<ChangeVerdict> {
        self.outcomes().min()
    }
}

impl Side {
    fn of(measured: &RunMeasurements) -> Self {
        let fingerprint = &measured.fingerprint;
        let gpu = fingerprint.gpu.as_ref().map(|gpu| gpu.name.clone());
        Self {
            name: measured.name.clone(),
            started: measured.started.clone(),
            machine: gpu
                .or_else(|| fingerprint.cpu.clone())
                .unwrap_or_else(|| "unknown".to_owned()),
            profile: measured.profile,
            revision: fingerprint.revision.clone(),
            repeats: measured.repeats(),
        }
    }
}

/// Labels of settings: the axes in which the cells of a workload differ.
pub(crate) struct Settings {
    /// Axes with more than one value, by suite and workload.
    axes: BTreeMap<(String, String), BTreeSet<Axis>>,
}

impl Settings {
    pub fn of<'a>(cells: impl Iterator<Item = &'a MeasuredCell>) -> Self {
        let mut first: BTreeMap<(String, String), (&MeasuredCell, BTreeSet<Axis>)> = BTreeMap::new();
        for measured in cells {
            let key = (measured.cell.suite.clone(), measured.cell.workload.name.clone());
            let (known, axes) = first
                .entry(key)
                .or_insert_with(|| (measured, BTreeSet::from([Axis::Precision])));
            let differing = Axis::ALL
                .iter()
                .copied()
                .filter(|axis| measured.cell.setting.get(*axis) != known.cell.setting.get(*axis));
            axes.extend(differing);
            if measured.cell.seed != known.cell.seed {
                axes.insert(Axis::Seed);
            }
        }
        Self {
            axes: first.into_iter().map(|(key, (_, axes))| (key, axes)).collect(),
        }
    }

    /// Returns a label such as `32-true · matmul high · batch 8`.
    pub fn label(&self, measured: &MeasuredCell) -> String {
        let cell = &measured.cell;
        let axes = self.axes.get(&(cell.suite.clone(), cell.workload.name.clone()));
        let labels = axes.into_iter().flatten().filter_map(|axis| match axis {
            Axis::Seed => Some(format!("seed {}", cell.seed)),
            Axis::Precision => Some(cell.setting.precision().to_string()),
            _ => Some(format!("{axis} {}", cell.setting.get(*axis)?)),
        });
        labels.collect::<Vec<_>>().join(" · ")
    }
}

/// Cell of either side or both.
pub(crate) struct Pair<'a> {
    pub before: Option<&'a MeasuredCell>,
    pub after: Option<&'a MeasuredCell>,
    /// Reason why the candidate skipped the cell.
    skipped: Option<&'a str>,
}

impl<'a> Pair<'a> {
    fn either(&self) -> &'a MeasuredCell {
        self.after
            .or(self.before)
            .expect("at least one side ran the cell")
    }

    fn findings(&self, judged: &BTreeSet<MetricName>, repeats: usize) -> Vec<Finding> {
        let found = |kind, verdict, text: String| Finding { kind, verdict, text };
        let (before, after) = match (self.before, self.after) {
            (Some(before), Some(after)) => (before, after),
            (None, _) => {
                let text = "not in the baseline".to_owned();
                return vec![found(FindingKind::New, ChangeVerdict::Changed, text)];
            }
            (Some(_), None) => {
                let text = match self.skipped {
                    Some(reason) => format!("skipped: {reason}"),
                    None => "not in the candidate".to_owned(),
                };
                return vec![found(FindingKind::Vanished, ChangeVerdict::Regressed, text)];
            }
        };
        let mut findings = vec![];
        findings.extend(ends(before, after, repeats));
        findings.extend(executed(before, after));
        findings.extend(kernels(before, after));
        findings.extend(lost(before, after, judged));
        findings
    }
}

/// Compares the exit statuses. If all processes fail on both sides, the status is unchanged only with at least `repeats` processes on each
/// side.
fn ends(before: &MeasuredCell, after: &MeasuredCell, repeats: usize) -> Option<Finding> {
    let failing = |measured: &MeasuredCell| {
        let all = measured.processes.len();
        (all - measured.completed().count(), all)
    };
    let ((was, of), (is, among)) = (failing(before), failing(after));
    let failure = |measured: &MeasuredCell| {
        let worst = measured
            .processes
            .iter()
            .find(|process| process.status != Status::Ok)?;
        let reason = worst.reason.as_deref().unwrap_or("no reason recorded");
        Some((worst.status, reason.to_owned()))
    };
    let verdict = match (was, is) {
        (0, 0) => return None,
        (0, _) => ChangeVerdict::Regressed,
        (_, 0) => ChangeVerdict::Improved,
        _ if was == of && is == among && of.min(among) >= repeats => ChangeVerdict::Unchanged,
        _ if was == of && is == among => ChangeVerdict::Inconclusive,
        // All processes of the candidate failed.
        _ if is == among => ChangeVerdict::Regressed,
        // Some processes fail on both sides. The sample is too small to show whether the failure rate rose.
        _ => ChangeVerdict::Inconclusive,
    };
    let describe = |measured: &MeasuredCell, count: usize, all: usize| match failure(measured) {
        Some((status, reason)) => format!("{status} in {count} of {all} processes ({reason})"),
        None => format!("ok in all {all} processes"),
    };
    Some(Finding {
        kind: FindingKind::Status,
        verdict,
        text: format!(
            "{}; before: {}",
            describe(after, is, among),
            describe(before, was, of)
        ),
    })
}

/// Finds judged metrics that only the baseline has. The records do not contain the reason, so the verdict is inconclusive.
fn lost(before: &MeasuredCell, after: &MeasuredCell, judged: &BTreeSet<MetricName>) -> Option<Finding> {
    after.completed().next()?;
    let has = |measured: &MeasuredCell, metric| !measured.values(metric).is_empty();
    let metrics = judged
        .iter()
        .filter(|metric| has(before, **metric) && !has(after, **metric))
        .map(|metric| metric.name().to_owned());
    let seen = |measured: &MeasuredCell| {
        let mut executed = measured.processes.iter().map(|process| &process.executed);
        executed.any(|executed| Observed::of(executed).is_some())
    };
    let precision = (seen(before) && !seen(after)).then(|| "the executed precision".to_owned());
    let all: Vec<String> = metrics.chain(precision).collect();
    (!all.is_empty()).then(|| Finding {
        kind: FindingKind::Lost,
        verdict: ChangeVerdict::Inconclusive,
        text: format!("no longer measured: {}", all.join(", ")),
    })
}

/// Compares the precision that was observed in the processes.
fn executed(before: &MeasuredCell, after: &MeasuredCell) -> Option<Finding> {
    let seen = |measured: &MeasuredCell| -> BTreeSet<Observed> {
        measured
            .processes
            .iter()
            .filter_map(|process| Observed::of(&process.executed))
            .collect()
    };
    let (was, is) = (seen(before), seen(after));
    if was.is_empty() || is.is_empty() || was == is {
        return None;
    }
    let joined = |seen: &BTreeSet<Observed>| {
        seen.iter()
            .map(Observed::to_string)
            .collect::<Vec<_>>()
            .join(" or ")
    };
    // If only the requested precision changed, both texts are equal. The verdict distinguishes them.
    let describe = |seen: &BTreeSet<Observed>, other: &BTreeSet<Observed>| match joined(seen) == joined(other)
    {
        true => seen
            .iter()
            .map(|seen| format!("{seen}, {}", seen.verdict))
            .collect::<Vec<_>>()
            .join(" or "),
        false => joined(seen),
    };
    let worse = is.iter().any(|now| was.iter().all(|then| now.is_less_than(then)));
    let better = was.iter().any(|then| is.iter().all(|now| then.is_less_than(now)));
    Some(Finding {
        kind: FindingKind::Executed,
        verdict: match (worse, better) {
            (true, _) => ChangeVerdict::Regressed,
            (false, true) => ChangeVerdict::Improved,
            (false, false) => ChangeVerdict::Changed,
        },
        text: format!(
            "executed {}; before: {}",
            describe(&is, &was),
            describe(&was, &is)
        ),
    })
}

/// Compares the names of the kernels that ran.
fn kernels(before: &MeasuredCell, after: &MeasuredCell) -> Option<Finding> {
    let seen = |measured: &MeasuredCell| -> BTreeSet<String> {
        let processes = measured.processes.iter();
        processes
            .filter_map(|process| process.executed.kernel.clone())
            .collect()
    };
    let (was, is) = (seen(before), seen(after));
    if was.is_empty() || is.is_empty() || was == is {
        return None;
    }
    let joined = |seen: &BTreeSet<String>| seen.iter().cloned().collect::<Vec<_>>().join(" or ");
    Some(Finding {
        kind: FindingKind::Kernel,
        verdict: ChangeVerdict::Changed,
        text: format!("kernel {}; before: {}", joined(&is), joined(&was)),
    })
}

/// Observed arithmetic of matmuls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Observed {
    significand: u32,
    exponent: u32,
    accumulator: String,
    verdict: ExecutedVerdict,
}

impl Observed {
    fn of(executed: &Executed) -> Option<Self> {
        Some(Self {
            significand: executed.operand_bits?,
            exponent: executed.exponent_bits?,
            accumulator: executed.accumulator.clone()?,
            verdict: executed.verdict,
        })
    }

    /// Returns true if at least one number of bits is smaller than in `other` and none is larger.
    fn is_less_than(&self, other: &Self) -> bool {
        let bits = |observed: &Self| {
            let sums = significand_of(&observed.accumulator);
            [Some(observed.significand), Some(observed.exponent), sums]
        };
        let (own, others) = (bits(self), bits(other));
        let all_known = own.iter().chain(&others).all(Option::is_some);
        all_known && own != others && own.iter().zip(others).all(|(own, other)| *own <= other)
    }
}

/// Parses the significand bits of an accumulator: the name of a format, or text such as `7 bits`.
fn significand_of(accumulator: &str) -> Option<u32> {
    match accumulator.parse::<Format>() {
        Ok(format) => Some(format.significand_bits()),
        Err(_) => accumulator.strip_suffix(" bits")?.parse().ok(),
    }
}

impl std::fmt::Display for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} significand bits, {} exponent bits, accumulator {}",
            self.significand, self.exponent, self.accumulator
        )
    }
}
