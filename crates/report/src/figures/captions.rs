//! Texts of captions: whiskers, measurement conditions, and the number of settings.

use mantissa_core::{Axis, Backend};

use crate::{Group, Row, setting::SettingResult, units};

/// Describes the whiskers for a caption.
pub(super) fn describe_whiskers(settings: &[SettingResult<'_, '_>]) -> String {
    let seeds = settings.iter().map(|setting| setting.seeds.len());
    match seeds.max().unwrap_or(1) {
        1 => "Whiskers are 95 % intervals; marks without whiskers have too few processes or samples."
            .to_owned(),
        most => format!(
            "Over {}{most} seeds: means of accuracies, losses and perplexities, medians of other values. Whiskers reach from the lowest seed to the \
             highest and are not confidence intervals.",
            if settings.iter().all(|setting| setting.seeds.len() == most) {
                ""
            } else {
                "up to "
            }
        ),
    }
}

/// Explains the mark of oversubscribed settings for a caption; empty without such settings.
pub(super) fn describe_oversubscription(settings: &[SettingResult<'_, '_>]) -> &'static str {
    match settings.iter().any(SettingResult::is_oversubscribed) {
        true => " Oversubscribed: more threads than cores, so the times are not comparable.",
        false => "",
    }
}

/// Formats the measurement conditions for the captions of a group: number of processes, CPU, and synthetic data.
pub(super) fn conditions(group: &Group<'_>) -> String {
    let processes = group
        .rows
        .iter()
        .map(Row::processes)
        .filter(|processes| *processes > 0);
    let (fewest, most) = processes.fold((usize::MAX, 0), |(fewest, most), n| (fewest.min(n), most.max(n)));
    let unit = match group.varies(Axis::Seed) {
        true => "setting and seed",
        false => "setting",
    };
    let processes = match (fewest, most) {
        (1, 1) => format!("One process per {unit}"),
        (fewest, most) if fewest >= most => format!("{most} processes per {unit}"),
        (fewest, most) => format!("{fewest} to {most} processes per {unit}"),
    };
    let records = || group.rows.iter().flat_map(|row| &row.records);
    let is_cpu = records().any(|record| record.cell.setting.backend() == Backend::Flex);
    let synthetic = records().any(|record| record.data.as_ref().is_some_and(|data| data.synthetic));
    let cpu = if is_cpu { "; CPU times" } else { "" };
    format!(
        "{processes}{cpu}{}.",
        if synthetic { "; synthetic data" } else { "" }
    )
}

/// Formats the number of settings: `12 settings`, or `40 of 1,000 settings` if some are left out.
pub(crate) fn settings_of(shown: usize, all: usize) -> String {
    if all == 1 {
        return "1 setting".to_owned();
    }
    let all = units::count(all as u64);
    match units::count(shown as u64) {
        shown if shown == all => format!("{all} settings"),
        shown => format!("{shown} of {all} settings"),
    }
}

/// Formats the number of settings if some are left out: `showing 40 of 1,000`.
pub(crate) fn shown_of(shown: usize, all: usize) -> Option<String> {
    (shown < all).then(|| {
        let count = |n: usize| units::count(n as u64);
        format!("showing {} of {}", count(shown), count(all))
    })
}
