//! Trends of a history: the noise of each metric, and the runs at which its level changed.

use mantissa_analysis::{Floor, Scale, change_points};
use mantissa_core::{Better, MetricName};
use serde::Serialize;

use crate::{ChangeVerdict, Entry, History, Series};

/// Seed of the permutation test for change points.
const SEED: u64 = 1;

/// Values of one metric of one cell on one machine, one per run.
#[derive(Debug, Clone, Serialize)]
pub struct Trend {
    /// Machine, backend and profile.
    pub machine: String,
    /// Suite of the cell.
    pub suite: String,
    /// Workload of the cell.
    pub workload: String,
    /// Axis values that distinguish the cell from the other cells of its workload.
    pub setting: String,
    /// Identity of the cell.
    pub cell: String,
    /// The metric.
    pub metric: MetricName,
    /// Median in each run, in the metric's unit, oldest first.
    pub runs: Vec<Point>,
    /// Run-to-run noise: a relative change (0.03 is 3 %), or a difference if `difference` is true. `None` with too few runs.
    pub fence: Option<f64>,
    /// Smallest relevant change, on the same scale as `fence`.
    pub floor: f64,
    /// True if `fence` and `floor` are differences in the metric's unit.
    pub difference: bool,
    /// Runs at which the level changed.
    pub changes: Vec<ChangePoint>,
    /// Index in `changes` of the regression that persists. All later levels are worse than the level before it, and the latest level is
    /// worse by more than the floor. The regression can consist of several small steps.
    pub stayed: Option<usize>,
}

/// One run of a trend.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Name of the run.
    pub run: String,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// Git revision of the program that ran.
    pub revision: Option<String>,
    /// Median of the metric over the processes of the run.
    pub value: f64,
}

/// Change point: a run at which the level of a metric changed.
#[derive(Debug, Clone, Serialize)]
pub struct ChangePoint {
    /// Index in [`Trend::runs`] of the first run with the new level.
    pub first: usize,
    /// Level before that run: the median since the previous change point.
    pub before: f64,
    /// Level from that run on: the median up to the next change point.
    pub after: f64,
    /// p-value of the permutation test.
    pub p: f64,
    /// Regressed, improved, or unchanged if the change is within the floor.
    pub outcome: ChangeVerdict,
}

impl History {
    /// Computes the trends of the metrics for which the policy has a floor.
    pub fn trends(&self, floors: impl Fn(MetricName) -> Option<Floor>) -> Vec<Trend> {
        let series = self.series().into_iter();
        series
            .filter_map(|series| Some(trend(&series, floors(series.metric)?)))
            .collect()
    }
}

fn trend(series: &Series<'_>, floor: Floor) -> Trend {
    let values: Vec<f64> = series.runs.iter().map(|(_, value)| *value).collect();
    // On a ratio scale, the levels are logarithms, so that a factor and its inverse have the same size.
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
        let to_value = |level: f64| match floor.scale {
            Scale::Ratio if values.iter().all(|value| *value > 0.0) => level.exp(),
            _ => level,
        };
        let (before, after) = (to_value(change.before), to_value(change.after));
        ChangePoint {
            first: change.first,
            before,
            after,
            p: change.p,
            outcome: outcome(series.metric, floor, before, after),
        }
    });
    let changes: Vec<ChangePoint> = changes.collect();
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
        stayed: persistent_regression(series.metric, floor, &changes),
        changes,
        runs: series
            .runs
            .iter()
            .map(|(entry, value)| Point::new(entry, *value))
            .collect(),
    }
}

/// Returns the index of the first change that persists: all later levels are worse than the level before it, and the latest level is worse
/// by more than the floor.
fn persistent_regression(metric: MetricName, floor: Floor, changes: &[ChangePoint]) -> Option<usize> {
    let latest = changes.last()?.after;
    let worse = |before: f64, after: f64| match metric.better() {
        Better::Higher => after < before,
        Better::Lower => after > before,
    };
    changes.iter().enumerate().position(|(index, change)| {
        changes[index..]
            .iter()
            .all(|later| worse(change.before, later.after))
            && outcome(metric, floor, change.before, latest) == ChangeVerdict::Regressed
    })
}

/// Classifies a change of level; changes up to the floor are `Unchanged`.
fn outcome(metric: MetricName, floor: Floor, before: f64, after: f64) -> ChangeVerdict {
    let (size, is_larger) = match floor.scale {
        Scale::Ratio => ((after / before).ln().abs().exp_m1(), after > before),
        Scale::Difference => ((after - before).abs(), after > before),
    };
    match (
        size > floor.size,
        is_larger == (metric.better() == Better::Higher),
    ) {
        (false, _) => ChangeVerdict::Unchanged,
        (true, true) => ChangeVerdict::Improved,
        (true, false) => ChangeVerdict::Regressed,
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
    fn changes_are_classified_by_floor_and_direction() {
        let verdict =
            |metric: MetricName, before, after| outcome(metric, Floor::of(metric).unwrap(), before, after);
        assert_eq!(
            verdict(MetricName::StepSeconds, 1.0, 1.02),
            ChangeVerdict::Unchanged
        );
        assert_eq!(
            verdict(MetricName::StepSeconds, 1.0, 1.05),
            ChangeVerdict::Regressed
        );
        assert_eq!(
            verdict(MetricName::StepSeconds, 1.0, 0.9),
            ChangeVerdict::Improved
        );
        assert_eq!(
            verdict(MetricName::FlopsPerSecond, 1.0, 0.9),
            ChangeVerdict::Regressed
        );
        assert_eq!(
            verdict(MetricName::TestAccuracy, 0.9, 0.905),
            ChangeVerdict::Unchanged
        );
        assert_eq!(
            verdict(MetricName::TestAccuracy, 0.9, 0.8),
            ChangeVerdict::Regressed
        );
    }

    #[test]
    fn persistent_regressions_include_small_steps_and_exclude_recoveries() {
        let first_persistent = |levels: &[f64]| {
            let metric = MetricName::StepSeconds;
            let floor = Floor::of(metric).unwrap();
            let change_point = |(index, pair): (usize, &[f64])| ChangePoint {
                first: 10 * (index + 1),
                before: pair[0],
                after: pair[1],
                p: 0.001,
                outcome: outcome(metric, floor, pair[0], pair[1]),
            };
            let changes: Vec<ChangePoint> = levels.windows(2).enumerate().map(change_point).collect();
            persistent_regression(metric, floor, &changes)
        };
        assert_eq!(first_persistent(&[1.0]), None);
        assert_eq!(first_persistent(&[1.0, 1.1]), Some(0));
        assert_eq!(first_persistent(&[1.0, 1.1, 1.2]), Some(0), "the first bad run");
        assert_eq!(first_persistent(&[1.0, 1.1, 1.0]), None);
        assert_eq!(first_persistent(&[1.0, 1.1, 1.05]), Some(0));
        assert_eq!(first_persistent(&[1.0, 1.1, 0.9, 1.05]), Some(2));
        assert_eq!(first_persistent(&[1.0, 0.8, 0.9]), Some(1));
        assert_eq!(first_persistent(&[1.0, 1.02, 1.04]), Some(0));
        assert_eq!(first_persistent(&[1.0, 1.02]), None);
    }
}
