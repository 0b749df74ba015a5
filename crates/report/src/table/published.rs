//! Fields and baseline of a published table.

use mantissa_core::{Axis, Better, MetricName};

use super::{column::Column, field::Field};
use crate::{Group, Published, Reference, group::MEMORY, units};

impl Column {
    /// Returns the field of a published row; `base` is the baseline of its table.
    pub fn published(self, group: &Group<'_>, row: &Published, base: Option<&Published>) -> Field {
        let value = |row: &Published, metric: MetricName| row.metrics.get(&metric).copied();
        let ratio = |upper: Option<f64>, lower: Option<f64>| match upper.zip(lower) {
            Some((upper, lower)) => Field {
                text: units::times(upper / lower),
                sort: Some(upper / lower),
                ..Field::default()
            },
            None => Field::absent(),
        };
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
            Self::SpeedUp => {
                let (mine, theirs) = (
                    value(row, group.speed),
                    base.and_then(|base| value(base, group.speed)),
                );
                if group.speed.better() == Better::Higher {
                    ratio(mine, theirs)
                } else {
                    ratio(theirs, mine)
                }
            }
            Self::Verdict => Field {
                text: "published".to_owned(),
                detail: remark(row),
                sort: None,
                status: true,
            },
            Self::AccuracyChange | Self::Executed | Self::Processes => Field::absent(),
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
