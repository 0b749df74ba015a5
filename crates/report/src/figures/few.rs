//! Which settings a figure shows where they are too many to be read.

use mantissa_core::Better;

use super::{setting::Setting, shown_of};
use crate::{Group, units};

/// More rows make a picture that nobody reads.
pub const MAX_ROWS: usize = 40;

/// Settings that one figure shows, in their order.
pub struct Few<'g, 'r> {
    pub settings: Vec<Setting<'g, 'r>>,
    /// Which of how many, where they are not all.
    pub told: Option<String>,
    /// How many there are.
    pub all: usize,
}

impl<'g, 'r> Few<'g, 'r> {
    /// Their baselines and the fastest of the others; all of them where that is no more than a figure can show.
    pub fn fastest(group: &Group<'_>, settings: Vec<Setting<'g, 'r>>) -> Self {
        let all = settings.len();
        if all <= MAX_ROWS {
            return Self {
                settings,
                told: None,
                all,
            };
        }
        let is_baseline: Vec<bool> = settings
            .iter()
            .map(|setting| setting.is_baseline(group))
            .collect();
        let baselines = is_baseline.iter().filter(|is| **is).count();
        // Where there are so many of them, none is what the others are compared with.
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
            let ((a_rest, a), (b_rest, b)) = (key(*a), key(*b));
            a_rest.cmp(&b_rest).then(a.total_cmp(&b))
        });
        order.truncate(MAX_ROWS);
        let told = match order.iter().all(|at| known[*at].is_some()) {
            true => Some(told(baselines, all)),
            false => shown_of(MAX_ROWS, all).map(|text| format!("{text} settings")),
        };
        let settings = settings.into_iter().enumerate();
        let settings = settings.filter(|(at, _)| order.contains(at));
        Self {
            settings: settings.map(|(_, setting)| setting).collect(),
            told,
            all,
        }
    }

    /// ` · the 40 fastest of 1,000 settings`, for a line below a title; empty where none is left out.
    pub fn below_title(&self) -> String {
        let told = self.told.as_ref().map(|told| format!(" · {told}"));
        told.unwrap_or_default()
    }
}

/// The smaller, the faster.
fn slowness(group: &Group<'_>, setting: &Setting<'_, '_>) -> Option<f64> {
    let value = setting.spot(|row| row.metric(group.speed))?.value;
    setting.trouble().is_none().then_some(match group.speed.better() {
        Better::Lower => value,
        Better::Higher => -value,
    })
}

fn told(baselines: usize, all: usize) -> String {
    let fastest = MAX_ROWS - baselines;
    let all = units::count(all as u64);
    match baselines {
        0 => format!("the {fastest} fastest of {all} settings"),
        1 => format!("the baseline and the {fastest} fastest others of {all} settings"),
        _ => format!("the {baselines} baselines and the {fastest} fastest others of {all} settings"),
    }
}
