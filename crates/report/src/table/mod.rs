//! Columns and fields of a group's table, as shown in the page and the summary.

mod column;
mod field;
mod published;

pub use column::Align;
pub(crate) use column::{Column, peak_memory_title};
pub(crate) use field::Field;
pub(crate) use published::{published_baseline, published_row, published_speed};

use mantissa_core::{Axis, MetricName, TaskKind};

use self::column::is_row_kernel;
use crate::{Group, scaling::efficiency, setting::SettingResult, units};

/// Returns the columns of a group: precision and matmul always, varying axes except the seed, and metrics that any row has.
pub(crate) fn columns(group: &Group<'_>) -> Vec<Column> {
    let predicts_tokens = group.rows.iter().any(|row| row.cell.workload.predicts_tokens());
    let mut columns = vec![Column::Axis(Axis::Precision)];
    columns.extend((!is_row_kernel(group)).then_some(Column::Axis(Axis::Matmul)));
    let axes = group.axes.iter().filter(|axis| **axis != Axis::Seed);
    columns.extend(axes.map(|axis| Column::Axis(*axis)));
    columns.extend([Column::Verdict, Column::Metric(group.speed), Column::SpeedUp]);
    columns.extend(is_row_kernel(group).then_some(Column::Metric(MetricName::BytesPerSecond)));
    columns.extend(match group.kind {
        TaskKind::Train => vec![Column::Metric(MetricName::TestAccuracy), Column::AccuracyChange],
        TaskKind::Evaluate if predicts_tokens => vec![
            Column::PerplexityChange,
            Column::Metric(MetricName::TestAccuracy),
            Column::Metric(MetricName::Agreement),
            Column::Metric(MetricName::Perplexity),
        ],
        TaskKind::Evaluate => vec![
            Column::Metric(MetricName::TestAccuracy),
            Column::AccuracyChange,
            Column::Metric(MetricName::Agreement),
            Column::Metric(MetricName::TestLoss),
        ],
        TaskKind::Generate => [MetricName::FirstTokenSeconds, MetricName::TokenSeconds]
            .map(Column::Metric)
            .to_vec(),
        TaskKind::Kernel => [MetricName::RelativeError, MetricName::MaxUlp]
            .map(Column::Metric)
            .to_vec(),
    });
    // Skip columns that contain only zeros.
    let if_nonzero = [
        MetricName::SkippedSteps,
        MetricName::NonFiniteSteps,
        MetricName::ClippedSteps,
        MetricName::DeviceIdleShare,
        MetricName::CommunicationShare,
        MetricName::BytesSent,
        MetricName::GradientError,
        MetricName::MeanStaleness,
    ];
    let occurring = if_nonzero.into_iter().filter(|metric| group.occurs(*metric));
    columns.extend(occurring.map(Column::Metric));
    columns.extend(group.memory.map(Column::Metric));
    let energy = units::ENERGY.into_iter().find(|metric| group.has(*metric));
    columns.extend(energy.map(Column::Metric));
    columns.push(Column::Executed);
    let settings = SettingResult::all(group, |_| true);
    let efficiencies = settings
        .iter()
        .any(|setting| efficiency(group, setting).is_some());
    columns.extend(efficiencies.then_some(Column::ScalingEfficiency));
    if settings.iter().any(|setting| setting.processes() > 1) {
        columns.push(Column::Processes);
    }
    if settings.iter().all(|setting| setting.accuracy_loss().is_none()) {
        columns.retain(|column| *column != Column::AccuracyChange);
    }
    if settings
        .iter()
        .all(|setting| setting.perplexity_change().is_none())
    {
        columns.retain(|column| *column != Column::PerplexityChange);
    }
    columns
}

/// Returns the columns of a group in the order of a page: the setting, its time, ratio, accuracy change or error, memory, executed precision and
/// verdict, then the other columns.
pub(crate) fn page_columns(group: &Group<'_>) -> Vec<Column> {
    let mut columns = columns(group);
    columns.sort_by_key(|column| match column {
        Column::Axis(_) => 0,
        Column::Metric(metric) if *metric == group.speed => 1,
        Column::SpeedUp => 2,
        Column::AccuracyChange | Column::PerplexityChange | Column::Metric(MetricName::RelativeError) => 3,
        Column::Metric(metric) if Some(*metric) == group.memory => 4,
        Column::Executed => 5,
        Column::Verdict => 6,
        Column::Metric(_) | Column::ScalingEfficiency | Column::Processes => 7,
    });
    columns
}

/// Returns the columns of a group with the chosen metrics instead of all metrics, in the given order. Leaves out metrics that no row has.
/// The column of the speed-up follows the metric by which speeds are compared.
pub(crate) fn columns_of(group: &Group<'_>, chosen: &[MetricName]) -> Vec<Column> {
    let columns = columns(group);
    if chosen.is_empty() {
        return columns;
    }
    let (before, after): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .filter(|column| {
            !matches!(
                column,
                Column::Metric(_) | Column::SpeedUp | Column::AccuracyChange | Column::PerplexityChange
            )
        })
        .partition(|column| matches!(column, Column::Axis(_) | Column::Verdict));
    let metrics = chosen
        .iter()
        .filter(|metric| group.has(**metric))
        .flat_map(|metric| {
            let speed_up = (*metric == group.speed).then_some(Column::SpeedUp);
            std::iter::once(Column::Metric(*metric)).chain(speed_up)
        });
    before.into_iter().chain(metrics).chain(after).collect()
}
