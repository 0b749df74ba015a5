//! What is known of a history before anything is drawn.

use std::cmp::Ordering;

use mantissa_core::MetricName;

/// The trends of a history.
#[derive(Debug, Clone, Default)]
pub struct Trends {
    /// What the history is called.
    pub name: String,
    /// Runs that it holds, of all machines.
    pub runs: usize,
    /// When the first and the last of them were begun: RFC 3339, UTC.
    pub span: Option<(String, String)>,
    /// A line a machine, cell and metric.
    pub lines: Vec<TrendLine>,
}

/// A metric of a cell on a machine, run by run.
#[derive(Debug, Clone)]
pub struct TrendLine {
    /// Machine, backend and profile.
    pub machine: String,
    /// Suite of the cell.
    pub suite: String,
    /// Its workload.
    pub workload: String,
    /// What tells its setting from those of the workload's other cells.
    pub setting: String,
    /// The metric.
    pub metric: MetricName,
    /// Its runs, the oldest first.
    pub runs: Vec<TrendRun>,
    /// How far it moves from run to run by itself, where enough runs tell: a share, or a difference in the metric's unit.
    pub fence: Option<f64>,
    /// The smallest change that matters, of the same kind; above 0.
    pub floor: f64,
    /// Whether these are differences.
    pub difference: bool,
    /// The runs from which on it was another, the earliest first.
    pub turns: Vec<TrendTurn>,
    /// The turn since which it has been worse than before, if it is.
    pub stayed: Option<usize>,
}

/// A run in a line.
#[derive(Debug, Clone)]
pub struct TrendRun {
    /// Its name.
    pub run: String,
    /// When it was begun: RFC 3339, UTC.
    pub started: String,
    /// Git revision of the program.
    pub revision: Option<String>,
    /// The metric, in its unit.
    pub value: f64,
}

/// A run from which on a metric was another.
#[derive(Debug, Clone)]
pub struct TrendTurn {
    /// Place of the run in its line.
    pub first: usize,
    /// Level before it, back to the turn before.
    pub before: f64,
    /// Level from it on, to the next turn.
    pub after: f64,
    /// How seldom shuffled runs turn as clearly.
    pub p: f64,
    /// Where to.
    pub towards: Towards,
}

/// Where a metric turned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// To the worse, by more than matters.
    Worse,
    /// To the better, by more than matters.
    Better,
    /// By less than matters.
    Neither,
}

impl Towards {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Neither => "too small to matter",
        }
    }
}

impl TrendRun {
    /// As much of the revision as tells it from others.
    pub fn short_revision(&self) -> Option<String> {
        let revision = self.revision.as_deref()?;
        Some(revision.chars().take(12).collect())
    }
}

impl TrendLine {
    /// Machines apart, what names it: `matmul bf16-true · size 64`.
    pub(super) fn name(&self) -> String {
        match self.setting.as_str() {
            "" => self.workload.clone(),
            setting => format!("{} {setting}", self.workload),
        }
    }

    /// The run of a turn.
    pub(super) fn run(&self, turn: &TrendTurn) -> Option<&TrendRun> {
        self.runs.get(turn.first)
    }

    /// The turn since which it has been worse, and the level that it has now.
    pub(super) fn worse(&self) -> Option<(&TrendTurn, f64)> {
        Some((self.turns.get(self.stayed?)?, self.turns.last()?.after))
    }

    /// How much a move is, in changes that just matter.
    pub(super) fn weight(&self, before: f64, after: f64) -> f64 {
        let moved = match self.difference {
            true => (after - before).abs(),
            false => (after / before).ln().abs().exp_m1(),
        };
        match (moved / self.floor).is_nan() {
            true => 0.0,
            false => moved / self.floor,
        }
    }

    /// Those that matter more come first: what is worse, what was, what is better, what turned by less than matters; within these
    /// the larger moves.
    pub(super) fn by_gravity(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.gravity(), other.gravity());
        theirs.0.cmp(&ours.0).then(theirs.1.total_cmp(&ours.1))
    }

    fn gravity(&self) -> (u8, f64) {
        let largest = |towards: Towards| {
            let turns = self.turns.iter().filter(move |turn| turn.towards == towards);
            turns
                .map(|turn| self.weight(turn.before, turn.after))
                .reduce(f64::max)
        };
        if let Some((turn, now)) = self.worse() {
            return (4, self.weight(turn.before, now));
        }
        let kinds = [(3, Towards::Worse), (2, Towards::Better), (1, Towards::Neither)];
        let found = kinds
            .into_iter()
            .find_map(|(rank, towards)| Some((rank, largest(towards)?)));
        found.unwrap_or_default()
    }
}

impl Trends {
    /// Whether its lines are of several machines.
    pub(super) fn many_machines(&self) -> bool {
        let mut machines = self.lines.iter().map(|line| &line.machine);
        let first = machines.next();
        machines.any(|machine| Some(machine) != first)
    }
}
