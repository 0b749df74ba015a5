//! Selects the baseline of each row and compares the row with it.

use std::collections::HashMap;

use mantissa_analysis::{Estimate, Groups, Judgement, hodges_lehmann_ratio, holm, judge, mcnemar};
use mantissa_core::{Axis, Better, MatmulPrecision, MetricName, Precision};

use crate::{Correct, Row};

/// Smallest relevant change of speed, as a share of the baseline's speed. It is visible in a ratio with two decimals.
pub(crate) const SPEED_THRESHOLD: f64 = 0.02;

/// Sets the baseline of every row, the ratios of speed and memory to it, and the significance of differences in speed and accuracy. Rows
/// that do the same work share a baseline: the first finished row with precision `32-true` and matmul `highest`, or else the first finished
/// row.
pub(crate) fn compare(rows: &mut [Row<'_>], speed: MetricName, memory: Option<MetricName>) {
    let keys: Vec<String> = rows.iter().map(work_key).collect();
    let is_f32 = |row: &Row<'_>| {
        let setting = &row.cell.setting;
        setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest
    };
    let mut baselines: HashMap<&str, usize> = HashMap::new();
    for prefer_f32 in [true, false] {
        for (index, row) in rows.iter().enumerate() {
            if row.is_ok() && (!prefer_f32 || is_f32(row)) {
                baselines.entry(&keys[index]).or_insert(index);
            }
        }
    }
    for (row, key) in rows.iter_mut().zip(&keys) {
        row.baseline = baselines.get(key.as_str()).copied();
    }
    judge_speeds(rows, speed);
    judge_accuracies(rows);
    let Some(memory) = memory else { return };
    let bytes: Vec<Vec<f64>> = rows.iter().map(|row| row.values(memory)).collect();
    for (row, mine) in rows.iter_mut().zip(&bytes) {
        row.memory_ratio = row
            .baseline
            .and_then(|baseline| hodges_lehmann_ratio(mine, &bytes[baseline]));
    }
}

/// Returns the index of each row and of its baseline. Leaves out rows without a baseline and the baselines themselves.
fn pairs(rows: &[Row<'_>]) -> Vec<(usize, usize)> {
    let pair = |(index, row): (usize, &Row<'_>)| Some((index, row.baseline?));
    let pairs = rows.iter().enumerate().filter_map(pair);
    pairs.filter(|(row, baseline)| row != baseline).collect()
}

/// Returns the speed of each process of a row. Higher is better, regardless of the metric's direction.
pub(crate) fn speeds(row: &Row<'_>, metric: MetricName) -> Vec<f64> {
    match metric.better() {
        Better::Lower => row.values(metric).iter().map(|value| 1.0 / value).collect(),
        Better::Higher => row.values(metric),
    }
}

fn judge_speeds(rows: &mut [Row<'_>], metric: MetricName) {
    let speeds: Vec<Vec<f64>> = rows.iter().map(|row| speeds(row, metric)).collect();
    let mut pairs = pairs(rows);
    pairs.retain(|(row, baseline)| !speeds[*row].is_empty() && !speeds[*baseline].is_empty());
    let family: Vec<Groups<'_>> = pairs
        .iter()
        .map(|(row, baseline)| Groups {
            baseline: &speeds[*baseline],
            candidate: &speeds[*row],
            better: Better::Higher,
            threshold: SPEED_THRESHOLD,
        })
        .collect();
    for ((row, _), Judgement { verdict, ratio, .. }) in pairs.iter().zip(judge(&family)) {
        (rows[*row].speed_up, rows[*row].speed_verdict) = (ratio, Some(verdict));
    }
    for (index, row) in rows.iter_mut().enumerate() {
        if row.baseline == Some(index) && row.metric(metric).is_some() {
            row.speed_up = Some(Estimate {
                value: 1.0,
                interval: None,
                n: row.processes() as u64,
                method: "itself",
            });
        }
    }
}

/// Tests the difference in accuracy between each row and its baseline with McNemar's test, corrected for all rows (Holm). Skips rows that
/// were tested on other data than their baseline. Uses one repeat of each cell, because repeats share a seed.
fn judge_accuracies(rows: &mut [Row<'_>]) {
    let tested: Vec<(usize, f64)> = pairs(rows)
        .into_iter()
        .filter_map(|(row, baseline)| {
            let ((data, mine), (other_data, theirs)) = (
                correct_predictions(&rows[row])?,
                correct_predictions(&rows[baseline])?,
            );
            let (only_mine, only_theirs) = mine.apart(theirs).filter(|_| data == other_data)?;
            Some((row, mcnemar(only_mine, only_theirs)))
        })
        .collect();
    let p_values: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    for ((row, _), p) in tested.into_iter().zip(holm(&p_values)) {
        rows[row].accuracy_p = Some(p);
    }
}

/// Returns the hash of a row's data and the correctness of its predictions, from the first process that recorded them.
pub(crate) fn correct_predictions<'a>(row: &Row<'a>) -> Option<(&'a str, &'a Correct)> {
    let (record, digest) = row
        .measured
        .iter()
        .copied()
        .find(|(_, digest)| digest.is_some_and(|digest| digest.correct.is_some()))?;
    Some((&record.data.as_ref()?.hash, digest?.correct.as_ref()?))
}

/// Returns a key for the work of a row. Rows with the same key share a baseline: only size, sequence length, input values and seed change
/// the work.
fn work_key(row: &Row<'_>) -> String {
    [Axis::Size, Axis::Sequence, Axis::Distribution, Axis::Seed]
        .map(|axis| row.axis(axis))
        .join(" ")
}
