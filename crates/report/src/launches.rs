//! Launch-bound rows: most of the time, the device waits for the host to launch kernels.

use mantissa_core::MetricName;

use crate::{Group, Row, row_notes::LAUNCH_BOUND, setting::SettingResult, units};

/// Returns `true` if a row is launch-bound.
pub(crate) fn is_launch_bound(row: &Row<'_>) -> bool {
    idle_share(row).is_some_and(|idle| idle > LAUNCH_BOUND)
}

fn idle_share(row: &Row<'_>) -> Option<f64> {
    Some(row.metric(MetricName::DeviceIdleShare)?.value)
}

/// Returns the title of a figure with launch-bound rows.
pub(crate) fn title(rows: &[&Row<'_>]) -> String {
    format!("Launch-bound: the device is idle for {} of the time", range(rows))
}

/// Returns the headline of settings that do the same work as a launch-bound baseline; `None` if the baseline is not launch-bound.
pub(crate) fn headline(group: &Group<'_>, settings: &[&SettingResult<'_, '_>]) -> Option<String> {
    let base = settings.iter().find(|setting| setting.is_baseline())?.row();
    let launches = base
        .metric(MetricName::LaunchesPerStep)
        .filter(|_| is_launch_bound(base))?;
    let rows: Vec<&Row<'_>> = settings.iter().map(|setting| setting.row()).collect();
    let remedy = match base.cell.setting.fusion() {
        true => "A larger batch reduces",
        false => "A larger batch or fusion=on reduces",
    };
    Some(format!(
        "{}, because the host launches {} kernels per step ({}). Speeds are limited by the host and do not rank formats. {remedy} \
         the share of launches.",
        title(&rows),
        units::count(launches.value.round() as u64),
        group.setting_label(base),
    ))
}

/// Formats the lowest and highest idle share of rows, in percent.
fn range(rows: &[&Row<'_>]) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let shares = || rows.iter().filter_map(|row| idle_share(row));
    let lowest = percent(shares().fold(f64::INFINITY, f64::min));
    let highest = percent(shares().fold(0.0, f64::max));
    match lowest == highest {
        true => format!("{lowest} %"),
        false => format!("{lowest} to {highest} %"),
    }
}
