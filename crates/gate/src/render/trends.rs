//! Conversion of a history to the trends of a report.

use std::collections::BTreeSet;

use mantissa_report::{Direction, TrendChangePoint, TrendLine, TrendRun, Trends};

use crate::{ChangePoint, ChangeVerdict, History, Point, Trend};

impl History {
    /// Converts trends for a page or a terminal. `name`: the displayed name of the history.
    pub fn to_trends(&self, name: &str, trends: &[Trend]) -> Trends {
        let runs: BTreeSet<(&str, &str)> = self
            .entries()
            .iter()
            .map(|entry| (entry.machine.as_str(), entry.run.as_str()))
            .collect();
        let starts = || self.entries().iter().map(|entry| entry.started.clone());
        Trends {
            name: name.to_owned(),
            runs: runs.len(),
            span: starts().min().zip(starts().max()),
            lines: trends.iter().map(line).collect(),
        }
    }
}

fn line(trend: &Trend) -> TrendLine {
    TrendLine {
        machine: trend.machine.clone(),
        suite: trend.suite.clone(),
        workload: trend.workload.clone(),
        setting: trend.setting.clone(),
        metric: trend.metric,
        runs: trend.runs.iter().map(run).collect(),
        fence: trend.fence,
        floor: trend.floor,
        difference: trend.difference,
        turns: trend.changes.iter().map(change_point).collect(),
        stayed: trend.stayed,
    }
}

fn run(point: &Point) -> TrendRun {
    TrendRun {
        run: point.run.clone(),
        started: point.started.clone(),
        revision: point.revision.clone(),
        value: point.value,
    }
}

fn change_point(change: &ChangePoint) -> TrendChangePoint {
    TrendChangePoint {
        first: change.first,
        before: change.before,
        after: change.after,
        p: change.p,
        towards: match change.outcome {
            ChangeVerdict::Regressed => Direction::Worse,
            ChangeVerdict::Improved => Direction::Better,
            ChangeVerdict::Inconclusive | ChangeVerdict::Changed | ChangeVerdict::Unchanged => {
                Direction::Neither
            }
        },
    }
}
