//! Findings of a group, as figure titles.

use mantissa_analysis::Verdict;

use super::setting::Setting;
use crate::{Group, headline::accuracy_differs, launches, units};

/// Names the setting with the highest speed relative to its baseline, among those whose accuracy does not differ significantly from
/// that of the baseline. The title notes if the speed difference may be chance. `None` if no setting can be compared.
pub fn speed(group: &Group<'_>, settings: &[Setting<'_, '_>]) -> Option<String> {
    let baseline = |setting: &Setting<'_, '_>| {
        let base = setting.row().baseline.map(|index| &group.rows[index].cell.id);
        settings.iter().find(|other| Some(&other.row().cell.id) == base)
    };
    let compared = settings.iter().filter_map(|setting| {
        let ratio = setting.spot(|row| row.speed_up.as_ref())?.value;
        let known = setting.failure().is_none() && !setting.is_baseline(group);
        known.then_some((setting, baseline(setting)?, ratio))
    });
    let mut compared: Vec<_> = compared.collect();
    if compared
        .iter()
        .any(|(_, base, _)| launches::is_launch_bound(base.row()))
    {
        let rows: Vec<_> = settings.iter().map(Setting::row).collect();
        return Some(launches::title(&rows));
    }
    let all = compared.len();
    compared.retain(|(setting, base, _)| {
        !setting
            .seeds
            .iter()
            .zip(&base.seeds)
            .any(|(a, b)| accuracy_differs(a, b))
    });
    let (among, no) = if compared.len() < all {
        ("With no significant accuracy difference, ", "no")
    } else {
        ("", "No")
    };
    let slower = |setting: &Setting<'_, '_>| {
        matches!(
            setting.speed_verdict(),
            Some(Verdict::Unchanged | Verdict::Regressed)
        )
    };
    let none_faster = compared.iter().all(|(setting, ..)| slower(setting));
    compared.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut sure = compared
        .iter()
        .filter(|(setting, ..)| setting.speed_verdict() == Some(Verdict::Improved));
    if let Some((setting, base, ratio)) = sure.next() {
        return Some(format!(
            "{among}{} is {} as fast as {}",
            setting.label,
            units::times(*ratio),
            base.label
        ));
    }
    let (setting, base, ratio) = compared.first()?;
    let (name, base, times) = (&setting.label, &base.label, units::times(*ratio));
    Some(match setting.speed_verdict() {
        Some(Verdict::Unchanged) if none_faster => {
            format!("{among}{no} setting is faster than {base}; {name} is as fast")
        }
        _ if *ratio > 1.0 => format!("{among}{name} ran {times} as fast as {base}, which may be chance"),
        _ => format!("{among}{no} setting ran faster than {base}; the closest is {name} at {times}"),
    })
}

/// Names the fastest setting of a kernel at its largest size, as [`speed`] does.
pub fn speed_at_largest(group: &Group<'_>) -> Option<String> {
    let size = group.ok().map(|row| row.cell.setting.size()).max()?;
    let settings = Setting::all(group, |row| row.is_ok() && row.cell.setting.size() == size);
    let found = speed(group, &settings)?;
    let found = match found.strip_prefix("No ") {
        Some(after) => format!("no {after}"),
        None => found,
    };
    Some(format!("At size {} {found}", units::count(size.into())))
}
