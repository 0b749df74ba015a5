//! Headline sentences that summarize the results of a workload, computed only from its rows.

mod kernel;
mod seeds;

pub(crate) use kernel::{LargestSize, error_exponents};

use mantissa_core::{Status, TaskKind};

use crate::{Group, Row, advise, memory_parts, setting::SettingResult, units};

/// Returns the sentences that summarize the results of a group.
pub(crate) fn answer(group: &Group<'_>) -> Vec<String> {
    let mut sentences = match group.kind {
        _ if group.ok().next().is_none() => vec![nothing_finished(group)],
        TaskKind::Kernel => kernel::sentences(group),
        TaskKind::Train | TaskKind::Evaluate | TaskKind::Generate => advise::recommendations(group),
    };
    sentences.extend(memory_parts::describe_saving(group));
    sentences.extend(seeds::spread(group));
    sentences.extend(failures(group));
    sentences.extend(unexpected(group));
    sentences
}

fn nothing_finished(group: &Group<'_>) -> String {
    match group.common_skip_reason() {
        Some(why) => format!(
            "All {} settings were skipped for the same reason: {why}.",
            units::count(group.comparisons.len() as u64)
        ),
        None => "No cell finished, so there is nothing to compare.".to_owned(),
    }
}

/// Reports the settings that differ from the suite's expectations.
fn unexpected(group: &Group<'_>) -> Option<String> {
    let rows: Vec<&Row<'_>> = group
        .rows
        .iter()
        .filter(|row| !row.unexpected.is_empty())
        .collect();
    match rows.as_slice() {
        [] => None,
        [row] => Some(format!("{}: {}.", group.label(row, &[]), row.remark())),
        rows => Some(format!(
            "{} cells violate expectations of the suite; the table shows the reasons.",
            rows.len()
        )),
    }
}

/// Reports the settings that did not finish, by status.
fn failures(group: &Group<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    for status in [Status::Diverged, Status::Oom, Status::Failed, Status::Timeout] {
        let has_status = |row: &Row<'_>| row.status == Some(status);
        let settings = SettingResult::all(group, has_status);
        let verb = match status {
            Status::Diverged => "diverged",
            Status::Oom => "ran out of memory",
            Status::Timeout => "timed out",
            _ => "failed",
        };
        let name = |setting: &SettingResult<'_, '_>| {
            let label = group.setting_label(setting.row());
            let count = setting.seeds.iter().filter(|row| has_status(row)).count();
            match setting.seeds.len() {
                1 => label,
                all => format!("{label} ({count} of {all} seeds)"),
            }
        };
        match settings.as_slice() {
            [] => {}
            [setting] => {
                let reason = setting.seeds.iter().find(|row| has_status(row));
                let reason = reason.and_then(|row| row.reason.as_ref());
                let why = reason.map(|why| format!(": {why}")).unwrap_or_default();
                sentences.push(format!("{} {verb}{why}.", name(setting)));
            }
            [first, .., last] => sentences.push(format!(
                "{} settings {verb}, from {} to {}; the table lists the reasons.",
                settings.len(),
                name(first),
                name(last),
            )),
        }
    }
    sentences
}
