//! A column of a group's table: its title, alignment and fields.

use mantissa_analysis::CONFIDENCE;
use mantissa_core::{Axis, AxisValue, Backend, MetricName};
use serde::Serialize;

use super::field::Field;
use crate::{Group, Row, estimates::is_token_metric, units};

/// Horizontal alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Align {
    /// Alignment of text.
    Left,
    /// Alignment of numbers.
    Right,
}

/// A column of a group's table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Column {
    Axis(Axis),
    Metric(MetricName),
    SpeedUp,
    /// Requested and executed precision; for kernels on rows, the launched kernel.
    Executed,
    Repeats,
    Status,
}

impl Column {
    /// Returns the title and the smaller line below it.
    pub fn title(self, group: &Group<'_>) -> (String, &'static str) {
        let (title, below) = match self {
            Self::Axis(axis) => (axis.name(), ""),
            Self::Metric(metric) if Some(metric) == group.memory => {
                ("peak memory", units::memory_title(metric))
            }
            Self::Metric(MetricName::TrainSeconds) => ("time", "validation included"),
            Self::Metric(
                metric @ (MetricName::TestAccuracy | MetricName::Agreement | MetricName::Perplexity),
            ) => match has_interval(group, metric) {
                true => (metric.name(), "95 % interval"),
                false => (metric.name(), ""),
            },
            Self::Metric(MetricName::FlopsPerSecond | MetricName::ValuesPerSecond) => {
                ("throughput", "95 % interval")
            }
            Self::Metric(MetricName::BytesPerSecond) => ("bandwidth", "relative to a copy"),
            Self::Metric(MetricName::RelativeError) => ("relative error", "against float64, by source"),
            Self::Metric(MetricName::DeviceIdleShare) => ("device idle", "waiting for launches"),
            Self::Metric(MetricName::MaxUlp) => ("largest error", "ULP"),
            Self::Metric(MetricName::EnergyCounterJoules) => ("energy", "NVML counter"),
            Self::Metric(MetricName::EnergyIntegralJoules) => ("energy", "sampled power"),
            Self::Metric(metric) => (metric.name(), ""),
            Self::SpeedUp => ("speed", "relative to baseline"),
            Self::Executed if is_row_kernel(group) => ("kernel", "as launched"),
            Self::Executed => ("operands → accumulator", "requested, executed"),
            Self::Repeats => ("repeats", ""),
            Self::Status => ("status", ""),
        };
        (title.replace('_', " "), below)
    }

    /// Returns the alignment: text left, numbers right.
    pub fn align(self) -> Align {
        match self {
            Self::Axis(axis) => match axis.default_value(Backend::Flex) {
                AxisValue::Integer(_) | AxisValue::Number(_) => Align::Right,
                AxisValue::Text(_) | AxisValue::List(_) => Align::Left,
            },
            Self::Metric(_) | Self::SpeedUp | Self::Repeats => Align::Right,
            Self::Executed | Self::Status => Align::Left,
        }
    }

    /// Returns the field of a measured row.
    pub fn field(self, group: &Group<'_>, row: &Row<'_>) -> Field {
        match self {
            Self::Axis(axis) => Field::axis(row.axis(axis)),
            Self::Metric(metric) => {
                let Some(estimate) = row.metric(metric) else {
                    return Field::absent();
                };
                let of_samples =
                    metric == MetricName::TestAccuracy || is_token_metric(&row.cell.workload, metric);
                let of_processes = row.processes() > 1 && !of_samples;
                let field = Field::estimate(estimate, group.scale(metric, estimate.value), of_processes);
                let field = if estimate.interval.is_none() && of_samples && has_interval(group, metric) {
                    field.without_interval()
                } else {
                    field
                };
                match &row.memory_ratio {
                    _ if metric == MetricName::TestAccuracy && row.accuracy_p.is_some_and(is_significant) => {
                        field.append_detail("differs from baseline")
                    }
                    _ if metric == MetricName::RelativeError => Field {
                        detail: sources(group, row),
                        ..field
                    },
                    Some(ratio) if Some(metric) == group.memory => Field {
                        detail: format!("{} baseline", units::times(ratio.value)),
                        ..field
                    },
                    _ if metric == MetricName::BytesPerSecond => Field {
                        detail: row.copy_share().map(copy_share_text).unwrap_or_default(),
                        ..field
                    },
                    _ if metric == MetricName::FlopsPerSecond => {
                        let of_peak = row.peak_share.map(peak_share_text).unwrap_or_default();
                        field
                            .append_detail(&of_peak)
                            .append_detail(&row.cublas_share().map(cublas_share_text).unwrap_or_default())
                            .append_detail(&row.sheet_share().map(sheet_share_text).unwrap_or_default())
                    }
                    _ => field,
                }
            }
            Self::SpeedUp => {
                let field = Field::ratio(row.speed_up.as_ref());
                let itself = row
                    .baseline
                    .is_some_and(|index| group.rows[index].cell.id == row.cell.id);
                if itself {
                    field.append_detail("baseline")
                } else {
                    let verdict = row.speed_verdict.map(|verdict| verdict.to_string());
                    field.append_detail(&verdict.unwrap_or_default())
                }
            }
            Self::Executed if is_row_kernel(group) => Field {
                text: row.kernel().unwrap_or(units::ABSENT).to_owned(),
                detail: row.executed().unwrap_or_default(),
                ..Field::default()
            },
            Self::Executed => Field {
                text: row.requested(),
                detail: row.executed().unwrap_or_default(),
                ..Field::default()
            },
            Self::Repeats => Field::axis(row.records.len().to_string()),
            Self::Status => {
                let field = Field {
                    text: row.status_name().to_owned(),
                    detail: row.remark(),
                    sort: None,
                    status: true,
                };
                row.notes
                    .iter()
                    .fold(field, |field, note| field.append_detail(note))
            }
        }
    }
}

/// Returns `true` if any row has an interval of a metric.
fn has_interval(group: &Group<'_>, metric: MetricName) -> bool {
    let mut estimates = group.rows.iter().filter_map(|row| row.metric(metric));
    estimates.any(|estimate| estimate.interval.is_some())
}

/// Returns `true` if the p-value of an accuracy difference is significant.
fn is_significant(p: f64) -> bool {
    p <= 1.0 - CONFIDENCE
}

fn peak_share_text(share: f64) -> String {
    format!("{:.0} % of the measured peak", 100.0 * share)
}

fn cublas_share_text(share: f64) -> String {
    format!("{:.0} % of cuBLASLt", 100.0 * share)
}

/// Formats the share of the data-sheet peak. Marks shares above 1.1 as implausible: the clock exceeds that of the data sheet only slightly.
fn sheet_share_text(share: f64) -> String {
    let implausible = match share > 1.1 {
        true => ": implausible, check time and precision",
        false => "",
    };
    format!("{:.0} % of the data-sheet peak{implausible}", 100.0 * share)
}

fn copy_share_text(share: f64) -> String {
    format!("{:.0} % of a copy", 100.0 * share)
}

/// Returns `true` for kernels on rows of values (GELU, softmax, norms, casts, AdamW), which have no matmul.
pub(super) fn is_row_kernel(group: &Group<'_>) -> bool {
    group.speed == MetricName::ValuesPerSecond
}

/// Formats the sources of an error: `operands 2.9×10⁻⁴, sum 1.1×10⁻⁷, output 0`.
fn sources(group: &Group<'_>, row: &Row<'_>) -> String {
    let (first, second) = match is_row_kernel(group) {
        true => ("formula", "arithmetic"),
        false => ("operands", "sum"),
    };
    let parts = [
        (first, MetricName::QuantisationError),
        (second, MetricName::AccumulationError),
        ("output", MetricName::RoundingError),
    ];
    let text = |(name, metric): (&str, MetricName)| {
        let value = row.metric(metric)?.value;
        Some(format!("{name} {}", units::scientific(value)))
    };
    parts.into_iter().filter_map(text).collect::<Vec<_>>().join(", ")
}
