//! Fields and baseline of a published table.

use mantissa_core::{Axis, AxisValue, Better, MetricName};

use super::{column::Column, field::Field};
use crate::{Group, Published, Reference, Row, group::MEMORY, units};

impl Column {
    /// Returns the field of a published row; `base` is the baseline of its table.
    pub fn published(self, group: &Group<'_>, row: &Published, base: Option<&Published>) -> Field {
        let value = |row: &Published, metric: MetricName| row.metrics.get(&metric).copied();
        match self {
            Self::Axis(axis) => row
                .setting
                .get(&axis)
                .map_or_else(Field::absent, |value| Field::axis(value.to_string())),
            Self::Metric(metric) if Some(metric) == group.memory => {
                let Some((kind, bytes)) = published_memory(row) else {
                    return Field::absent();
                };
                Field {
                    detail: units::memory_title(kind).to_owned(),
                    ..Field::reading(kind, bytes)
                }
            }
            Self::Metric(metric) => {
                value(row, metric).map_or_else(Field::absent, |value| Field::reading(metric, value))
            }
            Self::SpeedUp => match base.and_then(|base| published_speed(row, base, group.speed)) {
                Some(ratio) => Field {
                    text: units::times(ratio),
                    sort: Some(ratio),
                    ..Field::default()
                },
                None => Field::absent(),
            },
            Self::Verdict => Field {
                text: "published".to_owned(),
                detail: remark(row),
                sort: None,
                status: true,
            },
            Self::AccuracyChange
            | Self::PerplexityChange
            | Self::ScalingEfficiency
            | Self::Executed
            | Self::Processes => Field::absent(),
        }
    }
}

fn published_memory(row: &Published) -> Option<(MetricName, f64)> {
    MEMORY
        .into_iter()
        .find_map(|metric| row.metrics.get(&metric).map(|value| (metric, *value)))
}

/// Formats the label and the quantities of a published row that have no column.
fn remark(row: &Published) -> String {
    let other = row.other.iter().map(|(name, value)| format!("{name} {value}"));
    row.label
        .iter()
        .cloned()
        .chain(other)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Returns the speed of a published row relative to the baseline of its table.
pub(crate) fn published_speed(row: &Published, base: &Published, speed: MetricName) -> Option<f64> {
    let (mine, theirs) = (row.metrics.get(&speed)?, base.metrics.get(&speed)?);
    Some(match speed.better() {
        Better::Higher => mine / theirs,
        Better::Lower => theirs / mine,
    })
}

/// Returns the first published row whose stated axes all agree with a measured row.
pub(crate) fn published_row<'p>(reference: &'p Reference, row: &Row<'_>) -> Option<&'p Published> {
    let agrees = |(axis, value): (&Axis, &AxisValue)| row.cell.setting.get(*axis).as_ref() == Some(value);
    reference
        .rows
        .iter()
        .find(|published| published.setting.iter().all(agrees))
}

/// Returns the baseline of a published table: the row with precision 32-true and matmul highest, if any.
pub(crate) fn published_baseline(reference: &Reference) -> Option<&Published> {
    let is = |row: &Published, axis: Axis, name: &str| {
        row.setting
            .get(&axis)
            .is_some_and(|value| value.to_string() == name)
    };
    reference
        .rows
        .iter()
        .find(|row| is(row, Axis::Precision, "32-true") && is(row, Axis::Matmul, "highest"))
}
