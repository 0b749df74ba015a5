//! Comparison of every setting of a workload with the baseline of its work. Settings do the same work if they agree in the [`WORK_AXES`].

use std::collections::HashMap;

use mantissa_analysis::{Estimate, Groups, Judgement, Verdict, hodges_lehmann_ratio, judge, mean_over_seeds};
use mantissa_core::{Axis, Better, MatmulPrecision, MetricName, Precision};

use crate::{Row, comparability::is_comparable, difference::difference};

/// Axes that define the work of a setting: the size of the computation and the values of its inputs. Settings are compared only if these
/// axes are equal.
pub(crate) const WORK_AXES: [Axis; 3] = [Axis::Size, Axis::Sequence, Axis::Distribution];

/// Smallest relevant change of speed, as a share of the baseline's speed. It is visible in a ratio with two decimals.
pub(crate) const SPEED_THRESHOLD: f64 = 0.02;

/// Minimum number of test examples for a comparison of accuracies. With fewer, the 95 % interval of an accuracy spans more than 20 points.
pub(crate) const MIN_EXAMPLES: u64 = 100;

/// Rows of a setting and their comparison with the rows of the baseline.
#[derive(Debug, Clone, Default)]
pub(crate) struct Comparison {
    /// Indices of the rows of the setting, one per seed.
    pub rows: Vec<usize>,
    /// Index of the baseline row with the same seed, for each row; `None` if the baseline did not finish for that seed.
    pub baselines: Vec<Option<usize>>,
    /// `true` for the setting that is the baseline of its work.
    pub is_baseline: bool,
    /// Index of the work, in plan order. Settings with the same index do the same work.
    pub work: usize,
    /// Speed relative to the baseline.
    pub speed_up: Option<Estimate>,
    /// Verdict on the speed.
    pub speed_verdict: Option<Verdict>,
    /// Peak memory relative to the baseline.
    pub memory_ratio: Option<Estimate>,
    /// Test accuracy lost against the baseline, as a share of the examples.
    pub accuracy_loss: Option<Estimate>,
}

/// Groups rows into settings and compares each with the baseline of its work: the first 32-true/highest setting that finished, or else the
/// first setting that finished. Settings that are not oversubscribed, then settings that finished under every seed take precedence.
pub(crate) fn compare(rows: &[Row<'_>], speed: MetricName, memory: Option<MetricName>) -> Vec<Comparison> {
    let mut comparisons = settings(rows);
    set_baselines(rows, &mut comparisons);
    judge_speeds(rows, &mut comparisons, speed);
    compare_accuracies(rows, &mut comparisons);
    if let Some(memory) = memory {
        for comparison in &mut comparisons {
            let pairs = comparison.pairs(rows);
            let mut pairs = pairs.iter().filter_map(|(row, base)| Some((*row, (*base)?)));
            if !pairs.all(|(row, base)| is_comparable(memory, row, base)) {
                continue;
            }
            let [mine, theirs] = comparison.values(rows, |row| row.values(memory));
            comparison.memory_ratio = ratio_to_baseline(&mine, &theirs, comparison.is_baseline);
        }
    }
    comparisons
}

/// Groups the rows that differ only in the seed, in the order of the first row of each.
fn settings(rows: &[Row<'_>]) -> Vec<Comparison> {
    let mut known: HashMap<Vec<String>, usize> = HashMap::new();
    let mut works: HashMap<[String; 3], usize> = HashMap::new();
    let mut comparisons: Vec<Comparison> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let axes = Axis::ALL.iter().filter(|axis| **axis != Axis::Seed);
        let next = comparisons.len();
        let setting = *known
            .entry(axes.map(|axis| row.axis(*axis)).collect())
            .or_insert(next);
        if setting == next {
            let next = works.len();
            comparisons.push(Comparison {
                work: *works.entry(WORK_AXES.map(|axis| row.axis(axis))).or_insert(next),
                ..Comparison::default()
            });
        }
        comparisons[setting].rows.push(index);
    }
    comparisons
}

/// Sets the baseline row of each row, seed by seed. All baseline rows of a work belong to one setting: if it failed for a seed, no other setting
/// replaces it.
fn set_baselines(rows: &[Row<'_>], comparisons: &mut [Comparison]) {
    let works = comparisons.iter().map(|comparison| comparison.work).max();
    let mut by_seed: HashMap<(usize, u64), usize> = HashMap::new();
    for work in 0..works.map_or(0, |last| last + 1) {
        let Some(base) = choose_baseline(rows, comparisons, work) else {
            continue;
        };
        let base = &mut comparisons[base];
        base.is_baseline = true;
        let finished = base.rows.iter().filter(|row| rows[**row].is_ok());
        by_seed.extend(finished.map(|row| ((work, rows[*row].cell.seed), *row)));
    }
    for comparison in comparisons {
        let base = |row: &usize| by_seed.get(&(comparison.work, rows[*row].cell.seed)).copied();
        comparison.baselines = comparison.rows.iter().map(base).collect();
    }
}

fn choose_baseline(rows: &[Row<'_>], comparisons: &[Comparison], work: usize) -> Option<usize> {
    let key = |(index, comparison): (usize, &Comparison)| {
        let of_setting = || comparison.rows.iter().map(|row| &rows[*row]);
        let finished = of_setting().filter(|row| row.is_ok()).count();
        let setting = &of_setting().next()?.cell.setting;
        let is_f32 = setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest;
        let has_unfinished = of_setting().any(|row| row.ran() && !row.is_ok());
        let is_oversubscribed = of_setting().any(Row::is_oversubscribed);
        let key = (!is_f32, is_oversubscribed, has_unfinished, index);
        (comparison.work == work && finished > 0).then_some(key)
    };
    let best = comparisons.iter().enumerate().filter_map(key).min();
    best.map(|(.., index)| index)
}

impl Comparison {
    /// Returns the rows of the seeds that finished, or of all seeds if none did, with their baseline rows.
    fn pairs<'r, 'a>(&self, rows: &'r [Row<'a>]) -> Vec<(&'r Row<'a>, Option<&'r Row<'a>>)> {
        let any = self.rows.iter().any(|row| rows[*row].is_ok());
        let both = self.rows.iter().zip(&self.baselines);
        both.map(|(row, base)| (&rows[*row], base.map(|base| &rows[base])))
            .filter(|(row, _)| !any || row.is_ok())
            .collect()
    }

    /// Returns the values of the setting and of its baseline, for the seeds that both finished.
    fn values(&self, rows: &[Row<'_>], values: impl Fn(&Row<'_>) -> Vec<f64>) -> [Vec<f64>; 2] {
        let pairs = self.pairs(rows);
        let known = || pairs.iter().filter_map(|(row, base)| Some((*row, (*base)?)));
        [
            known().flat_map(|(row, _)| values(row)).collect(),
            known().flat_map(|(_, base)| values(base)).collect(),
        ]
    }
}

/// Returns the speed of each process of a row; empty if the row is oversubscribed. Higher is better, regardless of the metric's direction.
pub(crate) fn speeds(row: &Row<'_>, metric: MetricName) -> Vec<f64> {
    match metric.better() {
        _ if row.is_oversubscribed() => Vec::new(),
        Better::Lower => row.values(metric).iter().map(|value| 1.0 / value).collect(),
        Better::Higher => row.values(metric),
    }
}

/// Returns the ratio of the values of a row or a setting to those of its baseline: 1 for the baseline, else the Hodges–Lehmann ratio.
pub(crate) fn ratio_to_baseline(values: &[f64], baseline: &[f64], is_baseline: bool) -> Option<Estimate> {
    match is_baseline {
        true => ratio_to_itself(values),
        false => hodges_lehmann_ratio(values, baseline),
    }
}

/// Returns the ratio of a baseline to itself. It has no interval, because it is not an estimate. `None` without values.
fn ratio_to_itself(values: &[f64]) -> Option<Estimate> {
    (!values.is_empty()).then_some(Estimate {
        value: 1.0,
        interval: None,
        n: values.len() as u64,
        method: "itself",
    })
}

fn judge_speeds(rows: &[Row<'_>], comparisons: &mut [Comparison], metric: MetricName) {
    let values = comparisons
        .iter()
        .map(|comparison| comparison.values(rows, |row| speeds(row, metric)));
    let values: Vec<[Vec<f64>; 2]> = values.collect();
    let compared = |index: &usize| {
        let [mine, theirs] = &values[*index];
        !comparisons[*index].is_baseline && !mine.is_empty() && !theirs.is_empty()
    };
    let compared: Vec<usize> = (0..comparisons.len()).filter(compared).collect();
    let family: Vec<Groups<'_>> = compared
        .iter()
        .map(|index| Groups {
            baseline: &values[*index][1],
            candidate: &values[*index][0],
            better: Better::Higher,
            threshold: SPEED_THRESHOLD,
        })
        .collect();
    for (index, Judgement { verdict, ratio, .. }) in compared.iter().zip(judge(&family)) {
        let comparison = &mut comparisons[*index];
        (comparison.speed_up, comparison.speed_verdict) = (ratio, Some(verdict));
    }
    for (comparison, [mine, _]) in comparisons.iter_mut().zip(&values) {
        if comparison.is_baseline {
            comparison.speed_up = ratio_to_itself(mine);
        }
    }
}

/// Estimates the accuracy lost by every setting other than the baselines.
fn compare_accuracies(rows: &[Row<'_>], comparisons: &mut [Comparison]) {
    for comparison in comparisons.iter_mut().filter(|one| !one.is_baseline) {
        let loss = |(row, base): &(&Row<'_>, Option<&Row<'_>>)| {
            let base = (*base).filter(|base| has_accuracy(row) && has_accuracy(base))?;
            difference(base, row, MetricName::TestAccuracy)
        };
        let losses: Option<Vec<Estimate>> = comparison.pairs(rows).iter().map(loss).collect();
        comparison.accuracy_loss = losses.and_then(|losses| mean_over_seeds(&losses));
    }
}

/// Returns `true` if the test accuracy of a row was measured on enough examples.
pub(crate) fn has_accuracy(row: &Row<'_>) -> bool {
    row.metric(MetricName::TestAccuracy)
        .is_some_and(|accuracy| accuracy.n >= MIN_EXAMPLES)
}
