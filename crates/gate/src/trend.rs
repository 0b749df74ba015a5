//! What a history shows: how noisy each cell is by itself, and from which run on it was better or worse.

use mantissa_analysis::{Floor, Scale, change_points};
use mantissa_core::{Better, MetricName};
use serde::Serialize;

use crate::{Entry, History, Outcome, Series};

/// The seed of the shuffles behind change points.
const SEED: u64 = 1;

/// A metric of a cell on a machine, run by run.
#[derive(Debug, Clone, Serialize)]
pub struct Trend {
    /// Machine, backend and profile.
    pub machine: String,
    /// Suite of the cell.
    pub suite: String,
    /// Its workload.
    pub workload: String,
    /// What tells its setting from those of the workload's other cells.
    pub setting: String,
    /// Its identity.
    pub cell: String,
    /// The metric.
    pub metric: MetricName,
    /// Its median in each run, the oldest first, in the metric's unit.
    pub runs: Vec<Point>,
    /// How far it moves from run to run by itself, where enough runs tell: a share, or a difference in the metric's unit.
    pub fence: Option<f64>,
    /// The smallest change that matters, of the same kind.
    pub floor: f64,
    /// Whether fence and floor are differences.
    pub difference: bool,
    /// The runs from which on it was another.
    pub changes: Vec<Turn>,
    /// Which of them is the first since which it has been worse than before throughout, and by now by more than matters; small steps
    /// that add up have one, too.
    pub stayed: Option<usize>,
}

/// A run in a trend.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Name of the run.
    pub run: String,
    /// When it was begun: RFC 3339, UTC.
    pub started: String,
    /// Git revision of the program.
    pub revision: Option<String>,
    /// The median over its processes.
    pub value: f64,
}

/// A run from which on a metric was another.
#[derive(Debug, Clone, Serialize)]
pub struct Turn {
    /// Place of the run in the trend.
    pub first: usize,
    /// Median before it, back to the turn before.
    pub before: f64,
    /// Median from it on, to the next turn.
    pub after: f64,
    /// How seldom shuffled runs turn as clearly.
    pub p: f64,
    /// Worse, better, or a change that does not matter.
    pub outcome: Outcome,
}

impl History {
    /// The trends of its judged metrics: where the policy of the gate has a floor.
    pub fn trends(&self, floors: impl Fn(MetricName) -> Option<Floor>) -> Vec<Trend> {
        let series = self.series().into_iter();
        series
            .filter_map(|series| Some(trend(&series, floors(series.metric)?)))
            .collect()
    }
}

fn trend(series: &Series<'_>, floor: Floor) -> Trend {
    let values: Vec<f64> = series.runs.iter().map(|(_, value)| *value).collect();
    // Of ratios the logarithms: a factor up is as far as one down.
    let logarithms: Option<Vec<f64>> = values
        .iter()
        .map(|value| (*value > 0.0).then(|| value.ln()))
        .collect();
    let levels = match (floor.scale, logarithms) {
        (Scale::Ratio, Some(logarithms)) => logarithms,
        _ => values.clone(),
    };
    let changes = change_points(&levels, SEED);
    let changes = changes.into_iter().map(|change| {
        let back = |level: f64| match floor.scale {
            Scale::Ratio if values.iter().all(|value| *value > 0.0) => level.exp(),
            _ => level,
        };
        let (before, after) = (back(change.before), back(change.after));
        Turn {
            first: change.first,
            before,
            after,
            p: change.p,
            outcome: outcome(series.metric, floor, before, after),
        }
    });
    let changes: Vec<Turn> = changes.collect();
    let Entry {
        machine,
        suite,
        workload,
        setting,
        cell,
        ..
    } = series.latest;
    Trend {
        machine: machine.clone(),
        suite: suite.clone(),
        workload: workload.clone(),
        setting: setting.clone(),
        cell: cell.to_string(),
        metric: series.metric,
        fence: series.fence(floor.scale),
        floor: floor.size,
        difference: floor.scale == Scale::Difference,
        stayed: stayed(series.metric, floor, &changes),
        changes,
        runs: series
            .runs
            .iter()
            .map(|(entry, value)| Point::new(entry, *value))
            .collect(),
    }
}

/// The first turn since which every level is worse than the one before it, and the latest by more than matters.
fn stayed(metric: MetricName, floor: Floor, changes: &[Turn]) -> Option<usize> {
    let now = changes.last()?.after;
    let worse = |before: f64, after: f64| match metric.better() {
        Better::Higher => after < before,
        Better::Lower => after > before,
    };
    changes.iter().enumerate().position(|(index, turn)| {
        changes[index..]
            .iter()
            .all(|later| worse(turn.before, later.after))
            && outcome(metric, floor, turn.before, now) == Outcome::Regressed
    })
}

/// Whether what changed for good matters.
fn outcome(metric: MetricName, floor: Floor, before: f64, after: f64) -> Outcome {
    let (moved, larger) = match floor.scale {
        Scale::Ratio => ((after / before).ln().abs().exp_m1(), after > before),
        Scale::Difference => ((after - before).abs(), after > before),
    };
    match (moved > floor.size, larger == (metric.better() == Better::Higher)) {
        (false, _) => Outcome::Unchanged,
        (true, true) => Outcome::Improved,
        (true, false) => Outcome::Regressed,
    }
}

impl Point {
    fn new(entry: &Entry, value: f64) -> Self {
        Self {
            run: entry.run.clone(),
            started: entry.started.clone(),
            revision: entry.revision.clone(),
            value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_matters_beyond_the_floor_in_the_direction_of_the_metric() {
        let told =
            |metric: MetricName, before, after| outcome(metric, Floor::of(metric).unwrap(), before, after);
        assert_eq!(told(MetricName::StepSeconds, 1.0, 1.02), Outcome::Unchanged);
        assert_eq!(told(MetricName::StepSeconds, 1.0, 1.05), Outcome::Regressed);
        assert_eq!(told(MetricName::StepSeconds, 1.0, 0.9), Outcome::Improved);
        assert_eq!(told(MetricName::FlopsPerSecond, 1.0, 0.9), Outcome::Regressed);
        assert_eq!(told(MetricName::TestAccuracy, 0.9, 0.905), Outcome::Unchanged);
        assert_eq!(told(MetricName::TestAccuracy, 0.9, 0.8), Outcome::Regressed);
    }

    #[test]
    fn what_recovered_has_not_stayed_worse_and_small_steps_add_up() {
        let told = |levels: &[f64]| {
            let metric = MetricName::StepSeconds;
            let floor = Floor::of(metric).unwrap();
            let turn = |(index, pair): (usize, &[f64])| Turn {
                first: 10 * (index + 1),
                before: pair[0],
                after: pair[1],
                p: 0.001,
                outcome: outcome(metric, floor, pair[0], pair[1]),
            };
            let turns: Vec<Turn> = levels.windows(2).enumerate().map(turn).collect();
            stayed(metric, floor, &turns)
        };
        assert_eq!(told(&[1.0]), None);
        assert_eq!(told(&[1.0, 1.1]), Some(0));
        assert_eq!(told(&[1.0, 1.1, 1.2]), Some(0), "the first bad run");
        assert_eq!(told(&[1.0, 1.1, 1.0]), None);
        assert_eq!(told(&[1.0, 1.1, 1.05]), Some(0));
        assert_eq!(told(&[1.0, 1.1, 0.9, 1.05]), Some(2));
        assert_eq!(told(&[1.0, 0.8, 0.9]), Some(1));
        assert_eq!(told(&[1.0, 1.02, 1.04]), Some(0));
        assert_eq!(told(&[1.0, 1.02]), None);
    }
}
