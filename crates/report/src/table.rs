//! Columns and fields of a group's table, as shown in the page and the summary.

use mantissa_analysis::{CONFIDENCE, Estimate};
use mantissa_core::{Axis, Better, MetricName, TaskKind};
use serde::Serialize;

use crate::{
    Group, Published, Reference, Row,
    estimates::is_of_words,
    units::{self, Scale},
    view::MEMORY,
};

/// Horizontal alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Align {
    /// Alignment of text.
    Left,
    /// Alignment of numbers.
    Right,
}

/// A field of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Field {
    /// Main text.
    pub text: String,
    /// Smaller text: interval and n, or a reason.
    pub detail: String,
    /// Sort key in the page. Absent values sort last.
    pub sort: Option<f64>,
    /// `true` if the text is a status, which the page colours.
    pub status: bool,
}

impl Field {
    pub(crate) fn absent() -> Self {
        Self {
            text: units::ABSENT.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn axis(value: String) -> Self {
        Self {
            sort: value.parse().ok(),
            text: value,
            ..Self::default()
        }
    }

    fn reading(metric: MetricName, value: f64) -> Self {
        Self {
            text: Scale::of(metric, value).text(value),
            sort: Some(value),
            ..Self::default()
        }
    }

    /// Creates the field of an estimate whose n counts processes if `of_processes`, else samples.
    pub(crate) fn estimate(estimate: &Estimate, scale: Scale, of_processes: bool) -> Self {
        let interval = estimate.interval.map(|interval| scale.range(interval));
        let count = units::count(estimate.n);
        let n = if of_processes {
            format!("{count} processes")
        } else {
            format!("n {count}")
        };
        let n = (estimate.n > 1).then_some(n);
        let detail = interval.into_iter().chain(n).collect::<Vec<_>>().join(" · ");
        Self {
            text: scale.text(estimate.value),
            detail,
            sort: Some(estimate.value),
            ..Self::default()
        }
    }

    /// Marks the interval as absent, for a column in which other fields have one.
    fn without_interval(self) -> Self {
        let absent = Self {
            detail: units::ABSENT.to_owned(),
            ..Self::default()
        };
        let detail = absent.and(&self.detail).detail;
        Self { detail, ..self }
    }

    /// Returns the field without its smaller text.
    pub(crate) fn without_detail(self) -> Self {
        let detail = String::new();
        Self { detail, ..self }
    }

    /// Appends to the smaller text, unless `detail` is empty.
    pub(crate) fn and(mut self, detail: &str) -> Self {
        if !(self.detail.is_empty() || detail.is_empty()) {
            self.detail += " · ";
        }
        self.detail += detail;
        self
    }

    pub(crate) fn ratio(estimate: Option<&Estimate>) -> Self {
        let Some(estimate) = estimate else {
            return Self::absent();
        };
        let interval = estimate.interval.map(|i| format!("{:.2}–{:.2}", i.low, i.high));
        Self {
            text: units::times(estimate.value),
            detail: interval.unwrap_or_default(),
            sort: Some(estimate.value),
            ..Self::default()
        }
    }
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
            Self::Executed if of_rows(group) => ("kernel", "as launched"),
            Self::Executed => ("operands → accumulator", "requested, executed"),
            Self::Repeats => ("repeats", ""),
            Self::Status => ("status", ""),
        };
        (title.replace('_', " "), below)
    }

    /// Returns the alignment: text left, numbers right.
    pub fn align(self) -> Align {
        match self {
            Self::Axis(
                Axis::Batch
                | Axis::Accumulate
                | Axis::Sequence
                | Axis::Size
                | Axis::Seed
                | Axis::Devices
                | Axis::AdamEps,
            )
            | Self::Metric(_)
            | Self::SpeedUp
            | Self::Repeats => Align::Right,
            Self::Axis(_) | Self::Executed | Self::Status => Align::Left,
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
                    metric == MetricName::TestAccuracy || is_of_words(&row.cell.workload, metric);
                let of_processes = row.processes() > 1 && !of_samples;
                let field = Field::estimate(estimate, group.scale(metric, estimate.value), of_processes);
                let field = if estimate.interval.is_none() && of_samples && has_interval(group, metric) {
                    field.without_interval()
                } else {
                    field
                };
                match &row.memory_ratio {
                    _ if metric == MetricName::TestAccuracy && row.accuracy_p.is_some_and(is_significant) => {
                        field.and("differs from baseline")
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
                        detail: row.copy_share().map(of_copy).unwrap_or_default(),
                        ..field
                    },
                    _ if metric == MetricName::FlopsPerSecond => {
                        let measured = row.peak_share.map(of_peak).unwrap_or_default();
                        field
                            .and(&measured)
                            .and(&row.cublas_share().map(of_cublas).unwrap_or_default())
                            .and(&row.sheet_share().map(of_data_sheet).unwrap_or_default())
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
                    field.and("baseline")
                } else {
                    let verdict = row.speed_verdict.map(|verdict| verdict.to_string());
                    field.and(&verdict.unwrap_or_default())
                }
            }
            Self::Executed if of_rows(group) => Field {
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
                row.notes.iter().fold(field, |field, note| field.and(note))
            }
        }
    }

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
            Self::Status => Field {
                text: "published".to_owned(),
                detail: remark(row),
                sort: None,
                status: true,
            },
            Self::Executed | Self::Repeats => Field::absent(),
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

fn of_peak(share: f64) -> String {
    format!("{:.0} % of the measured peak", 100.0 * share)
}

fn of_cublas(share: f64) -> String {
    format!("{:.0} % of cuBLASLt", 100.0 * share)
}

/// Formats the share of the data-sheet peak. GPUs clock slightly higher than their data sheets assume, but not by 10 %.
fn of_data_sheet(share: f64) -> String {
    let implausible = match share > 1.1 {
        true => ": implausible, check time and precision",
        false => "",
    };
    format!("{:.0} % of the data-sheet peak{implausible}", 100.0 * share)
}

fn of_copy(share: f64) -> String {
    format!("{:.0} % of a copy", 100.0 * share)
}

/// Returns `true` for kernels on rows of values (GELU, softmax, norms, casts, AdamW), which have no matmul.
fn of_rows(group: &Group<'_>) -> bool {
    group.speed == MetricName::ValuesPerSecond
}

/// Formats the sources of an error: `operands 2.9×10⁻⁴, sum 1.1×10⁻⁷, output 0`.
fn sources(group: &Group<'_>, row: &Row<'_>) -> String {
    let (first, second) = match of_rows(group) {
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

/// Returns the baseline of a published table: the row under 32-true and highest, if any.
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

/// Returns the columns of a group: precision and matmul always, varying axes, and metrics that any row has.
pub(crate) fn columns(group: &Group<'_>) -> Vec<Column> {
    let mut columns = vec![Column::Axis(Axis::Precision)];
    columns.extend((!of_rows(group)).then_some(Column::Axis(Axis::Matmul)));
    columns.extend(group.axes.iter().map(|axis| Column::Axis(*axis)));
    columns.extend([Column::Status, Column::Metric(group.speed), Column::SpeedUp]);
    columns.extend(of_rows(group).then_some(Column::Metric(MetricName::BytesPerSecond)));
    columns.extend(match group.kind {
        TaskKind::Train => vec![Column::Metric(MetricName::TestAccuracy)],
        TaskKind::Evaluate => {
            let quality = match group.rows.iter().any(|row| row.cell.workload.predicts_tokens()) {
                true => MetricName::Perplexity,
                false => MetricName::TestLoss,
            };
            [MetricName::TestAccuracy, MetricName::Agreement, quality]
                .map(Column::Metric)
                .to_vec()
        }
        TaskKind::Generate => [MetricName::FirstTokenSeconds, MetricName::TokenSeconds]
            .map(Column::Metric)
            .to_vec(),
        TaskKind::Kernel => [MetricName::RelativeError, MetricName::MaxUlp]
            .map(Column::Metric)
            .to_vec(),
    });
    // Skip columns that contain only zeros.
    let steps = [
        MetricName::SkippedSteps,
        MetricName::NonFiniteSteps,
        MetricName::ClippedSteps,
    ];
    columns.extend(
        steps
            .into_iter()
            .filter(|metric| group.occurs(*metric))
            .map(Column::Metric),
    );
    columns.extend(
        [MetricName::DeviceIdleShare]
            .into_iter()
            .filter(|metric| group.occurs(*metric))
            .map(Column::Metric),
    );
    columns.extend(group.memory.map(Column::Metric));
    let energy = units::ENERGY.into_iter().find(|metric| group.has(*metric));
    columns.extend(energy.map(Column::Metric));
    columns.push(Column::Executed);
    if group.rows.iter().any(|row| row.records.len() > 1) {
        columns.push(Column::Repeats);
    }
    columns
}

/// Returns the columns with the chosen metrics alone, in the given order, without those that no row has. The speed-up stays next to
/// its time or rate.
pub(crate) fn columns_of(group: &Group<'_>, chosen: &[MetricName]) -> Vec<Column> {
    let columns = columns(group);
    if chosen.is_empty() {
        return columns;
    }
    let (before, after): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .filter(|column| !matches!(column, Column::Metric(_) | Column::SpeedUp))
        .partition(|column| matches!(column, Column::Axis(_) | Column::Status));
    let metrics = chosen
        .iter()
        .filter(|metric| group.has(**metric))
        .flat_map(|metric| {
            let speed_up = (*metric == group.speed).then_some(Column::SpeedUp);
            std::iter::once(Column::Metric(*metric)).chain(speed_up)
        });
    before.into_iter().chain(metrics).chain(after).collect()
}
