//! Findings of a group, as figure titles.

use mantissa_analysis::Verdict;
use mantissa_core::MetricName;

use crate::{
    Group, launches,
    setting::{AccuracyVerdict, SPEED_THRESHOLD, SettingResult, ratio_text},
    units,
};

/// Names the setting with the highest speed relative to its baseline, among those that are not shown to lose accuracy. Settings shown to be
/// faster take precedence. `None` if no setting can be compared.
pub fn speed(settings: &[SettingResult<'_, '_>]) -> Option<String> {
    let compared = settings.iter().filter_map(|setting| {
        let is_baseline =
            |other: &&SettingResult<'_, '_>| other.is_baseline() && other.work() == setting.work();
        let is_compared = setting.failure().is_none() && !setting.is_baseline();
        let base = settings.iter().find(is_baseline).filter(|_| is_compared)?;
        Some((setting, base, setting.speed_up()?))
    });
    let mut compared: Vec<_> = compared.collect();
    if compared
        .iter()
        .any(|(_, base, _)| launches::is_launch_bound(base))
    {
        return Some(launches::title(settings));
    }
    let loses_accuracy =
        |setting: &SettingResult<'_, '_>| setting.accuracy_verdict() == Some(AccuracyVerdict::Lost);
    let is_excluded =
        |setting: &SettingResult<'_, '_>| setting.failure().is_some() || loses_accuracy(setting);
    let mut excluded = settings.iter().filter(|setting| is_excluded(setting));
    let excluded_ran_faster =
        excluded.any(|setting| setting.speed_up().is_some_and(|ratio| ratio.value > 1.0));
    compared.retain(|(setting, ..)| !loses_accuracy(setting));
    compared.sort_by(|(a, _, x), (b, _, y)| {
        let is_faster = |setting: &SettingResult<'_, '_>| setting.speed_verdict() == Some(Verdict::Improved);
        is_faster(b).cmp(&is_faster(a)).then(y.value.total_cmp(&x.value))
    });
    let (setting, base, ratio) = compared.first()?;
    let accuracy = match setting.accuracy_verdict() {
        Some(AccuracyVerdict::Kept) => " and keeps its accuracy",
        Some(AccuracyVerdict::Undecided) => "; accuracy undecided",
        Some(AccuracyVerdict::Lost) | None => "",
    };
    let (name, base, text) = (&setting.label, &base.label, ratio_text(ratio));
    Some(match setting.speed_verdict() {
        Some(Verdict::Improved) => format!("{name} is {text} as fast as {base}{accuracy}"),
        Some(Verdict::Unchanged) => format!(
            "{name} is as fast as {base} within {:.0} %{accuracy}",
            100.0 * SPEED_THRESHOLD
        ),
        _ if ratio.value > 1.0 => format!("{name} ran {text} as fast as {base}{accuracy}"),
        _ if excluded_ran_faster => format!(
            "Only settings that fail or lose accuracy ran faster than {base}; the closest other is {name} at {text}{accuracy}"
        ),
        _ => format!("{base} ran fastest; the closest is {name} at {text}{accuracy}"),
    })
}

/// Names the fastest setting of a kernel at its largest size, as [`speed`] does.
pub fn speed_at_largest(group: &Group<'_>) -> Option<String> {
    let size = group.ok().map(|row| row.cell.setting.size()).max()?;
    let settings = SettingResult::all(group, |row| row.is_ok() && row.cell.setting.size() == size);
    let found = speed(&settings)?;
    // The panel below the title shows bytes per second, in which formats of different sizes have another order.
    let unit = match group.speed {
        MetricName::ValuesPerSecond => ", in values per second",
        _ => "",
    };
    Some(format!("At size {}, {found}{unit}", units::count(size.into())))
}
