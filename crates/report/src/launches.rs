//! Launch-bound settings: most of the time, the device waits for the host to launch kernels.

use mantissa_core::MetricName;

use crate::{Group, row_notes::LAUNCH_BOUND, setting::SettingResult, units};

/// Returns `true` if a setting is launch-bound.
pub(crate) fn is_launch_bound(setting: &SettingResult<'_, '_>) -> bool {
    let idle = setting.value(MetricName::DeviceIdleShare);
    idle.is_some_and(|idle| idle > LAUNCH_BOUND)
}

/// Returns the title of a figure with launch-bound settings.
pub(crate) fn title<'s, 'g: 's, 'a: 'g>(
    settings: impl IntoIterator<Item = &'s SettingResult<'g, 'a>>,
) -> String {
    let shares = settings.into_iter();
    let shares = shares.filter_map(|setting| setting.value(MetricName::DeviceIdleShare));
    format!(
        "Launch-bound: the device is idle for {} of the time",
        range(&shares.collect::<Vec<_>>())
    )
}

/// Returns the headline of settings that do the same work as a launch-bound baseline; `None` if the baseline is not launch-bound.
pub(crate) fn headline(group: &Group<'_>, settings: &[&SettingResult<'_, '_>]) -> Option<String> {
    let base = settings.iter().find(|setting| setting.is_baseline())?;
    let launches = base
        .value(MetricName::LaunchesPerStep)
        .filter(|_| is_launch_bound(base))?;
    let remedy = match base.row().cell.setting.fusion() {
        true => "A larger batch reduces",
        false => "A larger batch or fusion=on reduces",
    };
    Some(format!(
        "{}, because the host launches {} kernels per step ({}). Speeds are limited by the host and do not rank formats. {remedy} \
         the share of launches.",
        title(settings.iter().copied()),
        units::count(launches.round() as u64),
        group.setting_label(base.row()),
    ))
}

/// Formats the lowest and the highest share, in percent.
fn range(shares: &[f64]) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let lowest = percent(shares.iter().copied().fold(f64::INFINITY, f64::min));
    let highest = percent(shares.iter().copied().fold(0.0, f64::max));
    match lowest == highest {
        true => format!("{lowest} %"),
        false => format!("{lowest} to {highest} %"),
    }
}
