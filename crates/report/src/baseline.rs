//! Which row every row is compared with, and the ratios that follow.

use std::collections::HashMap;

use mantissa_analysis::{Estimate, ratio};
use mantissa_core::{Axis, Better, MatmulPrecision, MetricName, Precision};

use crate::Row;

/// Finds every row's baseline and its ratios to it.
pub(crate) fn compare(rows: &mut [Row<'_>], varying: &[Axis], speed: MetricName, memory: Option<MetricName>) {
    let by_precision = varying
        .iter()
        .any(|axis| matches!(axis, Axis::Precision | Axis::Matmul));
    let keys: Vec<String> = rows.iter().map(|row| baseline_key(row, by_precision)).collect();
    let is_f32 = |row: &Row<'_>| {
        let setting = &row.cell.setting;
        setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest
    };
    // First the f32 row of otherwise equal setting, else the first that ran.
    let mut baselines: HashMap<&str, usize> = HashMap::new();
    for prefer_f32 in [true, false] {
        for (index, row) in rows.iter().enumerate() {
            if row.is_ok() && (!prefer_f32 || is_f32(row)) {
                baselines.entry(&keys[index]).or_insert(index);
            }
        }
    }
    let found: Vec<Option<usize>> = keys
        .iter()
        .map(|key| baselines.get(key.as_str()).copied())
        .collect();
    let against = |row: &Row<'_>, base: &Row<'_>, metric: MetricName, speed: bool| {
        let (mine, theirs) = (row.metric(metric)?, base.metric(metric)?);
        if speed && metric.better() == Better::Lower {
            ratio(theirs, mine)
        } else {
            ratio(mine, theirs)
        }
    };
    for (index, baseline) in found.into_iter().enumerate() {
        let Some(baseline) = baseline else { continue };
        let (row, base) = (&rows[index], &rows[baseline]);
        let mut speed_up = against(row, base, speed, true);
        if index == baseline {
            // A row is not independent of itself: its ratio is 1 and has no interval.
            speed_up = speed_up.map(|itself| Estimate {
                interval: None,
                ..itself
            });
        }
        let memory_ratio = memory.and_then(|memory| against(row, base, memory, false));
        let row = &mut rows[index];
        (row.baseline, row.speed_up, row.memory_ratio) = (Some(baseline), speed_up, memory_ratio);
    }
}

/// Rows with equal keys share a baseline. Where the suite sweeps precision, that is every other axis; where it
/// does not, rows are compared across what it sweeps, except that sizes of a kernel are different work.
fn baseline_key(row: &Row<'_>, by_precision: bool) -> String {
    let mut key = row.cell.seed.to_string();
    for (axis, value) in row.cell.setting.iter() {
        let precision = matches!(axis, Axis::Precision | Axis::Matmul);
        if (by_precision && !precision) || axis == Axis::Size {
            key += &format!(" {axis}={value}");
        }
    }
    key
}
