//! Efficiency of several devices relative to one.

use mantissa_analysis::median;
use mantissa_core::{Axis, Backend, MetricName};

use crate::{Group, Row, setting::SettingResult};

/// Axes that may differ between a setting and its reference on one device.
const COMMUNICATION: [Axis; 7] = [
    Axis::Devices,
    Axis::Reduce,
    Axis::Staleness,
    Axis::ReduceAlgorithm,
    Axis::ReduceFormat,
    Axis::Batch,
    Axis::Accumulate,
];

/// Efficiency of a setting with several devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Efficiency {
    /// Speed relative to N times the speed of one device with the same effective batch size.
    Share(f64),
    /// More threads than cores: the devices take turns, so the speed is not that of the devices.
    Oversubscribed,
}

/// Returns the efficiency of a setting. Returns `None` for one device, if no finished setting on one device does the same work, and if
/// `threads` is not set on the CPU, because one device then uses all cores.
pub(crate) fn efficiency(group: &Group<'_>, setting: &SettingResult<'_, '_>) -> Option<Efficiency> {
    let row = setting.row();
    let devices = row.cell.setting.devices();
    if devices == 1 {
        return None;
    }
    let seconds = setting.value(MetricName::StepSeconds)?;
    if row.is_oversubscribed() {
        return Some(Efficiency::Oversubscribed);
    }
    if row.cell.setting.backend() == Backend::Flex {
        row.cell.setting.threads()?;
    }
    let same_work = |other: &Row<'_>| {
        let mut axes = Axis::ALL.iter().filter(|axis| !COMMUNICATION.contains(axis));
        axes.all(|axis| *axis == Axis::Seed || row.axis(*axis) == other.axis(*axis))
            && row.cell.setting.effective_batch() == other.cell.setting.effective_batch()
    };
    let references = group
        .rows
        .iter()
        .filter(|other| is_reference(other) && same_work(other));
    // One device can divide the batch into fewer, larger micro-batches, which is faster.
    let batch = references.clone().map(|row| row.cell.setting.batch()).max()?;
    let alone = references.filter(|row| row.cell.setting.batch() == batch);
    let alone = median(alone.filter_map(|row| Some(row.metric(MetricName::StepSeconds)?.value)))?;
    Some(Efficiency::Share(alone.value / (f64::from(devices) * seconds)))
}

fn is_reference(row: &Row<'_>) -> bool {
    row.is_ok() && row.cell.setting.devices() == 1
}
