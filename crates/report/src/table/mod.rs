//! Columns and fields of a group's table, as shown in the page and the summary.

mod column;
mod field;
mod published;

pub use column::Align;
pub(crate) use column::Column;
pub(crate) use field::Field;
pub(crate) use published::published_baseline;

use mantissa_core::{Axis, MetricName, TaskKind};

use self::column::is_row_kernel;
use crate::{Group, units};

/// Returns the columns of a group: precision and matmul always, varying axes, and metrics that any row has.
pub(crate) fn columns(group: &Group<'_>) -> Vec<Column> {
    let mut columns = vec![Column::Axis(Axis::Precision)];
    columns.extend((!is_row_kernel(group)).then_some(Column::Axis(Axis::Matmul)));
    columns.extend(group.axes.iter().map(|axis| Column::Axis(*axis)));
    columns.extend([Column::Status, Column::Metric(group.speed), Column::SpeedUp]);
    columns.extend(is_row_kernel(group).then_some(Column::Metric(MetricName::BytesPerSecond)));
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

/// Returns the columns of a group with the chosen metrics instead of all metrics, in the given order. Leaves out metrics that no row has.
/// The column of the speed-up follows the metric by which speeds are compared.
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
