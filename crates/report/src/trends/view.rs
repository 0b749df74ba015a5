//! Data model of a history's trends, independent of the output format.

use std::cmp::Ordering;

use mantissa_core::MetricName;

/// Trends of a history.
#[derive(Debug, Clone, Default)]
pub struct Trends {
    /// Name of the history.
    pub name: String,
    /// Number of runs, over all machines.
    pub runs: usize,
    /// Start times of the first and the last run: RFC 3339, UTC.
    pub span: Option<(String, String)>,
    /// One line per machine, cell and metric.
    pub lines: Vec<TrendLine>,
}

/// A metric of a cell on a machine, run by run.
#[derive(Debug, Clone)]
pub struct TrendLine {
    /// Machine, backend and profile.
    pub machine: String,
    /// Suite of the cell.
    pub suite: String,
    /// Workload of the cell.
    pub workload: String,
    /// Label that distinguishes the setting from the workload's other cells.
    pub setting: String,
    /// The metric.
    pub metric: MetricName,
    /// Runs, oldest first.
    pub runs: Vec<TrendRun>,
    /// Usual change between consecutive runs (noise), if there are enough runs: a share, or a difference in the metric's unit.
    pub fence: Option<f64>,
    /// Smallest relevant change, in the same unit as `fence`; above 0.
    pub floor: f64,
    /// `true` if `fence` and `floor` are differences.
    pub difference: bool,
    /// Change points, earliest first.
    pub turns: Vec<TrendChangePoint>,
    /// Index of the change point since which the metric has been worse; `None` if it is not worse.
    pub stayed: Option<usize>,
}

/// A run of a trend line.
#[derive(Debug, Clone)]
pub struct TrendRun {
    /// Name of the run.
    pub run: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Git revision of the program.
    pub revision: Option<String>,
    /// Value of the metric, in its unit.
    pub value: f64,
}

/// Change point of a metric.
#[derive(Debug, Clone)]
pub struct TrendChangePoint {
    /// Index of the first run after the change.
    pub first: usize,
    /// Level between the previous change point and this one.
    pub before: f64,
    /// Level between this change point and the next one.
    pub after: f64,
    /// p-value of a permutation test: share of shuffled histories with at least as clear a change.
    pub p: f64,
    /// Direction of the change.
    pub towards: Direction,
}

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Worse by a relevant amount.
    Worse,
    /// Better by a relevant amount.
    Better,
    /// Changed by less than a relevant amount.
    Neither,
}

impl Direction {
    /// Returns the display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Neither => "too small to matter",
        }
    }
}

impl TrendRun {
    /// Returns the abbreviated revision.
    pub fn short_revision(&self) -> Option<String> {
        let revision = self.revision.as_deref()?;
        Some(revision.chars().take(12).collect())
    }
}

impl TrendLine {
    /// Returns the name without the machine: `matmul bf16-true · size 64`.
    pub(super) fn name(&self) -> String {
        match self.setting.as_str() {
            "" => self.workload.clone(),
            setting => format!("{} {setting}", self.workload),
        }
    }

    /// Returns the run at which the change happened.
    pub(super) fn run(&self, turn: &TrendChangePoint) -> Option<&TrendRun> {
        self.runs.get(turn.first)
    }

    /// Returns the change point since which the metric has been worse, and the current level.
    pub(super) fn worse(&self) -> Option<(&TrendChangePoint, f64)> {
        Some((self.turns.get(self.stayed?)?, self.turns.last()?.after))
    }

    /// Returns the size of a change in multiples of the smallest relevant change.
    pub(super) fn relative_size(&self, before: f64, after: f64) -> f64 {
        let change = match self.difference {
            true => (after - before).abs(),
            false => (after / before).ln().abs().exp_m1(),
        };
        match (change / self.floor).is_nan() {
            true => 0.0,
            false => change / self.floor,
        }
    }

    /// Orders by severity, most severe first: currently worse, temporarily worse, better, irrelevant change. Within each kind, larger
    /// changes come first.
    pub(super) fn by_severity(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.severity(), other.severity());
        theirs.0.cmp(&ours.0).then(theirs.1.total_cmp(&ours.1))
    }

    fn severity(&self) -> (u8, f64) {
        let largest = |towards: Direction| {
            let turns = self.turns.iter().filter(move |turn| turn.towards == towards);
            turns
                .map(|turn| self.relative_size(turn.before, turn.after))
                .reduce(f64::max)
        };
        if let Some((turn, now)) = self.worse() {
            return (4, self.relative_size(turn.before, now));
        }
        let kinds = [
            (3, Direction::Worse),
            (2, Direction::Better),
            (1, Direction::Neither),
        ];
        let found = kinds
            .into_iter()
            .find_map(|(rank, towards)| Some((rank, largest(towards)?)));
        found.unwrap_or_default()
    }
}

impl Trends {
    /// Returns `true` if the lines come from several machines.
    pub(super) fn many_machines(&self) -> bool {
        let mut machines = self.lines.iter().map(|line| &line.machine);
        let first = machines.next();
        machines.any(|machine| Some(machine) != first)
    }
}
