//! Comparability of metrics of several devices. Times of more threads than cores are not comparable. Memory and energy are those of rank 0, so
//! they are not comparable between different numbers of devices or different values of `reduce`.

use mantissa_core::{MetricName, Unit};

use crate::Row;

/// Returns `true` if a metric depends on the speed.
pub(crate) fn depends_on_speed(metric: MetricName) -> bool {
    let is_share_of_time = matches!(
        metric,
        MetricName::CommunicationShare | MetricName::DeviceIdleShare
    );
    is_share_of_time
        || matches!(
            metric.unit(),
            Unit::Seconds
                | Unit::Joules
                | Unit::SamplesPerSecond
                | Unit::TokensPerSecond
                | Unit::FlopsPerSecond
                | Unit::ValuesPerSecond
                | Unit::BytesPerSecond
        )
}

/// Returns `true` if a metric is the memory or the energy of rank 0.
pub(crate) fn is_of_rank_0(metric: MetricName) -> bool {
    match metric.unit() {
        Unit::Joules => true,
        Unit::Bytes => !matches!(metric, MetricName::BytesSent | MetricName::LoadedBytes),
        _ => false,
    }
}

/// Returns `true` if rank 0 does the same part of the work for both rows. A parameter server on rank 0 has other contents than a rank of an
/// all-reduce.
pub(crate) fn is_same_rank_0(row: &Row<'_>, other: &Row<'_>) -> bool {
    let (setting, other) = (&row.cell.setting, &other.cell.setting);
    // `reduce` has no effect with one device.
    let has_same_reduce = setting.devices() == 1 || setting.reduce() == other.reduce();
    setting.devices() == other.devices() && has_same_reduce
}

/// Returns `true` if the ratio of a metric of two rows is meaningful.
pub(crate) fn is_comparable(metric: MetricName, row: &Row<'_>, other: &Row<'_>) -> bool {
    let of_unequal_ranks = is_of_rank_0(metric) && !is_same_rank_0(row, other);
    let oversubscribed = row.is_oversubscribed() || other.is_oversubscribed();
    !(of_unequal_ranks || depends_on_speed(metric) && oversubscribed)
}
