//! Which row every row is compared with, and the ratios that follow.

use std::collections::HashMap;

use mantissa_analysis::{Estimate, ratio};
use mantissa_core::{Axis, Better, MatmulPrecision, MetricName, Precision};

use crate::Row;

/// Finds every row's baseline and its ratios to it: of the rows that do the same work, the first under
/// 32-true/highest, or else the first that ran.
pub(crate) fn compare(rows: &mut [Row<'_>], speed: MetricName, memory: Option<MetricName>) {
    let keys: Vec<String> = rows.iter().map(work).collect();
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

/// Rows of equal work share a baseline: however a setting cuts or computes it, only a size, a sequence length, other
/// input values or a seed make it another.
fn work(row: &Row<'_>) -> String {
    [Axis::Size, Axis::Sequence, Axis::Distribution, Axis::Seed]
        .map(|axis| row.axis(axis))
        .join(" ")
}
