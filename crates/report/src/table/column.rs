//! A column of a group's table: its title, alignment and fields.

use mantissa_analysis::{Estimate, Verdict};
use mantissa_core::{Axis, AxisValue, Backend, MetricName};
use serde::Serialize;

use super::field::Field;
use crate::{
    Group, Row,
    comparability::depends_on_speed,
    estimates::is_token_metric,
    scaling::{Efficiency, efficiency},
    setting::{MIN_EXAMPLES, OVERSUBSCRIBED, SettingResult, accuracy_change, certainty},
    units,
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

/// A column of a group's table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Column {
    Axis(Axis),
    Metric(MetricName),
    SpeedUp,
    /// Change of the test accuracy against the baseline, in points.
    AccuracyChange,
    /// Change of the perplexity against the baseline of the run, in percent.
    PerplexityChange,
    /// Speed of several devices relative to as many times the speed of one.
    ScalingEfficiency,
    /// Requested and executed precision; for row kernels (see [`is_row_kernel`]), the launched kernel.
    Executed,
    /// Number of processes over all seeds.
    Processes,
    Verdict,
}

impl Column {
    /// Returns the title and the smaller line below it.
    pub fn title(self, group: &Group<'_>) -> (String, &'static str) {
        let (title, below) = match self {
            Self::Axis(axis) => (axis.name(), ""),
            Self::Metric(metric) if Some(metric) == group.memory => {
                (peak_memory_name(group), units::memory_title(metric))
            }
            Self::Metric(MetricName::TrainSeconds) => ("time", "validation included"),
            Self::Metric(
                metric @ (MetricName::TestAccuracy | MetricName::Agreement | MetricName::Perplexity),
            ) => match has_interval(group, metric) {
                true if group.varies(Axis::Seed) => (metric.name(), "range over the seeds"),
                true => (metric.name(), "95 % interval"),
                false => (metric.name(), ""),
            },
            Self::Metric(MetricName::FlopsPerSecond | MetricName::ValuesPerSecond) => {
                let seeds = group.varies(Axis::Seed);
                (
                    "throughput",
                    if seeds {
                        "range over the seeds"
                    } else {
                        "95 % interval"
                    },
                )
            }
            Self::Metric(MetricName::BytesPerSecond) => ("bandwidth", "relative to a copy"),
            Self::Metric(MetricName::RelativeError) => ("relative error", "against float64, by source"),
            Self::Metric(MetricName::DeviceIdleShare) => ("device idle", "waiting for launches"),
            Self::Metric(MetricName::CommunicationShare) => ("communication", "share of the step"),
            Self::Metric(MetricName::GradientError) => ("gradient error", "of the sum, against float64"),
            Self::Metric(MetricName::MeanStaleness) => ("mean staleness", "optimizer steps"),
            Self::Metric(MetricName::BytesSent) => ("bytes sent", "per step, busiest device"),
            Self::Metric(MetricName::MaxUlp) => ("largest error", "ULP"),
            Self::Metric(MetricName::EnergyCounterJoules) => ("energy", "NVML counter"),
            Self::Metric(MetricName::EnergyIntegralJoules) => ("energy", "sampled power"),
            Self::Metric(metric) => (metric.name(), ""),
            Self::SpeedUp => ("speed", "relative to baseline"),
            Self::Executed if is_row_kernel(group) => ("kernel", "as launched"),
            Self::Executed => ("operands → accumulator", "requested, executed"),
            Self::AccuracyChange => ("accuracy change", "points, 95 % interval"),
            Self::PerplexityChange => ("perplexity change", "against the baseline of the run"),
            Self::ScalingEfficiency => ("scaling efficiency", "against one device"),
            Self::Processes => ("processes", ""),
            Self::Verdict => ("verdict", ""),
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
            Self::Metric(_)
            | Self::SpeedUp
            | Self::AccuracyChange
            | Self::PerplexityChange
            | Self::ScalingEfficiency
            | Self::Processes => Align::Right,
            Self::Executed | Self::Verdict => Align::Left,
        }
    }

    /// Returns the field of a setting.
    pub fn field(self, group: &Group<'_>, setting: &SettingResult<'_, '_>) -> Field {
        let row = setting.row();
        match self {
            Self::Axis(axis) => Field::axis(row.axis(axis)),
            Self::Metric(metric) => metric_field(group, setting, metric),
            Self::SpeedUp => match setting.speed_up() {
                _ if setting.is_baseline() => Field::ratio(setting.speed_up()).append_detail("baseline"),
                None if setting.is_oversubscribed() => Field::absent().append_detail(OVERSUBSCRIBED),
                None => Field::absent(),
                Some(ratio) => Field {
                    detail: certainty(ratio),
                    ..Field::ratio(Some(ratio))
                },
            },
            Self::PerplexityChange => match setting.perplexity_change() {
                None => Field::absent(),
                Some(change) => Field {
                    text: units::signed_percent(change),
                    sort: Some(change),
                    ..Field::default()
                },
            },
            Self::ScalingEfficiency => match efficiency(group, setting) {
                None => Field::absent(),
                Some(Efficiency::Oversubscribed) => Field {
                    text: OVERSUBSCRIBED.to_owned(),
                    detail: "more threads than cores".to_owned(),
                    ..Field::default()
                },
                Some(Efficiency::Share(share)) => Field {
                    text: format!("{:.0} %", 100.0 * share),
                    sort: Some(share),
                    ..Field::default()
                },
            },
            Self::AccuracyChange => match setting.accuracy_loss() {
                _ if setting.is_baseline() => Field::absent(),
                None => Field::absent(),
                Some(loss) => accuracy_change_field(loss),
            },
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
            Self::Processes => Field::axis(setting.processes().to_string()),
            Self::Verdict => {
                let field = Field {
                    text: verdict_text(setting),
                    detail: setting.remark(),
                    sort: None,
                    status: true,
                };
                let notes = match setting.seeds.as_slice() {
                    [only] => &only.notes[..],
                    _ => &[],
                };
                notes.iter().fold(field, |field, note| field.append_detail(note))
            }
        }
    }
}

fn metric_field(group: &Group<'_>, setting: &SettingResult<'_, '_>, metric: MetricName) -> Field {
    let row = setting.row();
    let Some(spot) = setting.spot(metric) else {
        return match metric == MetricName::TestAccuracy && setting.has_too_few_examples() {
            true => Field {
                text: "not measured".to_owned(),
                detail: format!("fewer than {MIN_EXAMPLES} examples"),
                ..Field::default()
            },
            false => Field::absent(),
        };
    };
    let scale = group.scale(metric, spot.value);
    let of_samples = metric == MetricName::TestAccuracy || is_token_metric(&row.cell.workload, metric);
    let field = match setting.estimate(metric) {
        Some(estimate) => {
            let of_processes = row.processes() > 1 && !of_samples;
            let field = Field::estimate(estimate, scale, of_processes);
            match estimate.interval.is_none() && of_samples && has_interval(group, metric) {
                true => field.without_interval(),
                false if setting.seeds.len() > 1 => field.append_detail("1 seed"),
                false => field,
            }
        }
        None => Field::over_seeds(spot, scale, setting.effective_seeds().count()),
    };
    let field = match depends_on_speed(metric) && setting.is_oversubscribed() {
        true => field.append_detail(OVERSUBSCRIBED),
        false => field,
    };
    let is_one_seed = setting.estimate(metric).is_some();
    match setting.memory_ratio() {
        _ if metric == MetricName::RelativeError && is_one_seed => Field {
            detail: sources(group, row),
            ..field
        },
        Some(ratio) if Some(metric) == group.memory => Field {
            detail: format!("{} baseline", units::times(ratio.value)),
            ..field
        },
        _ if metric == MetricName::BytesPerSecond && is_one_seed => Field {
            detail: setting.copy_share().map(copy_share_text).unwrap_or_default(),
            ..field
        },
        _ if metric == MetricName::FlopsPerSecond && is_one_seed => {
            let of_peak = row.peak_share.map(peak_share_text).unwrap_or_default();
            field
                .append_detail(&of_peak)
                .append_detail(&row.cublas_share().map(cublas_share_text).unwrap_or_default())
                .append_detail(&row.sheet_share().map(sheet_share_text).unwrap_or_default())
        }
        _ => field,
    }
}

fn accuracy_change_field(loss: &Estimate) -> Field {
    let text = accuracy_change(loss);
    let (value, detail) = text.split_once(" points").unwrap_or((&text, ""));
    Field {
        text: value.to_owned(),
        detail: detail.trim().trim_matches(['(', ')']).to_owned(),
        sort: Some(-loss.value),
        ..Field::default()
    }
}

/// Formats the verdict on a setting: its status if it did not finish, else the verdicts on its speed and on its accuracy relative to the
/// baseline.
fn verdict_text(setting: &SettingResult<'_, '_>) -> String {
    if let Some(failure) = setting.failure_text() {
        return failure;
    }
    if setting.is_baseline() {
        return "baseline".to_owned();
    }
    // The speed column already states that there are too few processes.
    let speed = setting.tested_speed_verdict().map(|verdict| match verdict {
        Verdict::Improved => "faster",
        Verdict::Regressed => "slower",
        Verdict::Unchanged => "equally fast",
        Verdict::Inconclusive(_) => "speed undecided",
    });
    let accuracy = setting.accuracy_verdict().map(|verdict| {
        let seeds = if setting.is_trained_once() {
            " (one seed)"
        } else {
            ""
        };
        format!("{}{seeds}", verdict.text())
    });
    let parts: Vec<&str> = speed.into_iter().chain(accuracy.as_deref()).collect();
    let text = match parts.as_slice() {
        [] if setting.speed_up().is_none() => "not compared".to_owned(),
        [] if setting.processes() == 1 => "measured once".to_owned(),
        [] => "too few processes".to_owned(),
        parts => parts.join(", "),
    };
    match setting.missing_seeds() {
        0 => text,
        missing => format!(
            "{text}, {missing} of {} seeds not run",
            missing + setting.seeds.len()
        ),
    }
}

/// Returns `true` if any row has an interval of a metric.
fn has_interval(group: &Group<'_>, metric: MetricName) -> bool {
    let mut estimates = group.rows.iter().filter_map(|row| row.metric(metric));
    estimates.any(|estimate| estimate.interval.is_some())
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

/// Returns the name of the peak memory within a table.
fn peak_memory_name(group: &Group<'_>) -> &'static str {
    match group.has_several_devices() {
        true => "peak memory of rank 0",
        false => "peak memory",
    }
}

/// Returns the title of the peak memory.
pub(crate) fn peak_memory_title(group: &Group<'_>) -> &'static str {
    match group.has_several_devices() {
        true => "Peak memory of rank 0",
        false => "Peak memory",
    }
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
