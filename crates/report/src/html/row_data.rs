//! Plain values of a row, from which the page recomputes ratios when the reader selects another baseline.

use mantissa_analysis::Verdict;
use mantissa_core::{Better, MetricName};
use serde::Serialize;

use crate::{
    Group,
    setting::{AccuracyVerdict, SettingResult, has_accuracy},
    table::Column,
};

/// Values of a setting, as attributes of its row.
#[derive(Serialize)]
pub(super) struct RowData {
    /// Id of the row's element: the id of the setting's first cell, so that links survive another rendering.
    id: String,
    /// Label of the setting, as in the figures of its workload.
    label: String,
    /// Index of the work: only settings that do the same work are compared.
    work: usize,
    /// Seeds from which the values are computed.
    seeds: String,
    speed: Option<f64>,
    memory: Option<f64>,
    /// Test accuracy; `None` if a seed has too few examples for a comparison.
    accuracy: Option<f64>,
    /// Part of the smaller text of the verdict that depends on the baseline.
    relative: Option<String>,
    /// `true` for the baseline, for a setting that differs significantly from it, and for a failed one.
    differs: bool,
}

impl RowData {
    pub fn of(group: &Group<'_>, setting: &SettingResult<'_, '_>) -> Self {
        let is_accurate = setting.effective_seeds().all(has_accuracy);
        let is_comparable = |metric: &MetricName| setting.is_comparable_with_baseline(*metric);
        let memory = group.memory.filter(is_comparable);
        let seeds = setting.effective_seeds().map(|row| row.cell.seed.to_string());
        Self {
            id: format!("row-{}", setting.seeds[0].cell.id),
            label: setting.label.clone(),
            work: setting.work(),
            seeds: seeds.collect::<Vec<_>>().join(" "),
            speed: setting
                .value(group.speed)
                .filter(|_| !setting.is_oversubscribed()),
            memory: memory.and_then(|metric| setting.value(metric)),
            accuracy: setting.value(MetricName::TestAccuracy).filter(|_| is_accurate),
            relative: setting.loss_not_excluded(),
            differs: differs(setting),
        }
    }
}

fn differs(setting: &SettingResult<'_, '_>) -> bool {
    let failed = setting.seeds.iter().any(|row| row.ran() && !row.is_ok());
    let faster_or_slower = matches!(
        setting.speed_verdict(),
        Some(Verdict::Improved | Verdict::Regressed)
    );
    let less_accurate = setting.accuracy_verdict() == Some(AccuracyVerdict::Lost);
    setting.is_baseline() || failed || faster_or_slower || less_accurate
}

/// Role of a column in the recomputation; empty if its fields do not depend on the baseline.
pub(super) fn role(group: &Group<'_>, column: Column) -> &'static str {
    match column {
        Column::Axis(_) => "axis",
        Column::SpeedUp if group.speed.better() == Better::Lower => "inverse-ratio",
        Column::SpeedUp => "ratio",
        Column::AccuracyChange => "change",
        Column::Verdict => "verdict",
        Column::Metric(metric) if Some(metric) == group.memory => "memory",
        Column::Metric(_)
        | Column::PerplexityChange
        | Column::ScalingEfficiency
        | Column::Executed
        | Column::Processes => "",
    }
}

/// Unit of the plain values of a column, as in results.csv; `None` for texts and counts.
pub(super) fn unit(column: Column) -> Option<&'static str> {
    match column {
        Column::Metric(metric) => Some(metric.unit().name()),
        Column::SpeedUp | Column::AccuracyChange | Column::PerplexityChange | Column::ScalingEfficiency => {
            Some("1")
        }
        Column::Axis(_) | Column::Executed | Column::Processes | Column::Verdict => None,
    }
}
