//! Comparability of metrics of several devices. Times of more threads than cores are not comparable, nor are memory and energy of
//! different numbers of devices, because they are those of rank 0.

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

/// Returns `true` if the ratio of a metric of two rows is meaningful.
pub(crate) fn is_comparable(metric: MetricName, row: &Row<'_>, other: &Row<'_>) -> bool {
    let devices = |row: &Row<'_>| row.cell.setting.devices();
    let of_unequal_groups = is_of_rank_0(metric) && devices(row) != devices(other);
    let oversubscribed = row.is_oversubscribed() || other.is_oversubscribed();
    !(of_unequal_groups || depends_on_speed(metric) && oversubscribed)
}
