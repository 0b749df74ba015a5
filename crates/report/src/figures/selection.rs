//! Selection of settings for a figure that cannot show all of them.

use mantissa_core::Better;

use super::shown_of;
use crate::{Group, setting::SettingResult, units};

/// Maximum number of rows in a readable figure.
pub const MAX_ROWS: usize = 40;

/// Settings that a figure shows, in their original order.
pub struct Selection<'g, 'r> {
    pub settings: Vec<SettingResult<'g, 'r>>,
    /// Description of the selection, if settings are left out.
    pub description: Option<String>,
    /// Number of settings before the selection.
    pub all: usize,
}

impl<'g, 'r> Selection<'g, 'r> {
    /// Selects the baselines and the fastest of the other settings, or all settings if a figure has room for them.
    pub fn fastest(group: &Group<'_>, settings: Vec<SettingResult<'g, 'r>>) -> Self {
        let all = settings.len();
        if all <= MAX_ROWS {
            return Self {
                settings,
                description: None,
                all,
            };
        }
        let is_baseline: Vec<bool> = settings.iter().map(|setting| setting.is_baseline()).collect();
        let baselines = is_baseline.iter().filter(|is| **is).count();
        // If the baselines would fill more than half of the rows, they are not preferred.
        let baselines = if baselines > MAX_ROWS / 2 { 0 } else { baselines };
        let known: Vec<Option<f64>> = settings.iter().map(|setting| slowness(group, setting)).collect();
        let mut order: Vec<usize> = (0..all).collect();
        let key = |at: usize| {
            (
                baselines == 0 || !is_baseline[at],
                known[at].unwrap_or(f64::INFINITY),
            )
        };
        order.sort_by(|a, b| {
            let ((a_other, a), (b_other, b)) = (key(*a), key(*b));
            a_other.cmp(&b_other).then(a.total_cmp(&b))
        });
        order.truncate(MAX_ROWS);
        let description = match order.iter().all(|at| known[*at].is_some()) {
            true => Some(describe(baselines, all)),
            false => shown_of(MAX_ROWS, all).map(|text| format!("{text} settings")),
        };
        let settings = settings.into_iter().enumerate();
        let settings = settings.filter(|(at, _)| order.contains(at));
        Self {
            settings: settings.map(|(_, setting)| setting).collect(),
            description,
            all,
        }
    }

    /// Formats the selection for a subtitle: ` · the 40 fastest of 1,000 settings`; empty if no setting is left out.
    pub fn subtitle_suffix(&self) -> String {
        let description = self.description.as_ref();
        description.map_or_else(String::new, |text| format!(" · {text}"))
    }
}

/// Returns a sort key that is smaller for faster settings; `None` if the speed is unknown or not comparable.
fn slowness(group: &Group<'_>, setting: &SettingResult<'_, '_>) -> Option<f64> {
    let value = setting.spot(group.speed)?.value;
    let is_comparable = setting.failure().is_none() && !setting.is_oversubscribed();
    is_comparable.then_some(match group.speed.better() {
        Better::Lower => value,
        Better::Higher => -value,
    })
}

/// Describes a selection of baselines and of the fastest other settings.
fn describe(baselines: usize, all: usize) -> String {
    let fastest = MAX_ROWS - baselines;
    let all = units::count(all as u64);
    match baselines {
        0 => format!("the {fastest} fastest of {all} settings"),
        1 => format!("the baseline and the {fastest} fastest others of {all} settings"),
        _ => format!("the {baselines} baselines and the {fastest} fastest others of {all} settings"),
    }
}
