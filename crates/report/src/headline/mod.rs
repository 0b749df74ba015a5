//! Headline sentences about the suite's question, derived only from the rows of a workload.

mod kernel;
mod memory;
mod model;
mod quality;
mod seeds;
mod speed;

pub(crate) use quality::accuracy_differs;

use mantissa_core::{Status, TaskKind};

use crate::{Group, Row, memory_parts, units};

/// Returns the sentences that summarize the results of a group.
pub(crate) fn answer(group: &Group<'_>) -> Vec<String> {
    let mut sentences = match group.kind {
        TaskKind::Train | TaskKind::Evaluate | TaskKind::Generate => model::sentences(group),
        TaskKind::Kernel => kernel::sentences(group),
    };
    if sentences.is_empty() {
        sentences.push(match group.common_skip_reason() {
            Some(why) => format!(
                "All {} settings were skipped for the same reason: {why}.",
                units::count(group.rows.len() as u64)
            ),
            None => "No cell finished, so there is nothing to compare.".to_owned(),
        });
    }
    sentences.extend(memory_parts::describe_saving(group));
    sentences.extend(seeds::spread(group));
    sentences.extend(failures(group));
    sentences.extend(unexpected(group));
    sentences
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
            "{} settings violate expectations of the suite; the table shows the reasons.",
            rows.len()
        )),
    }
}

/// Reports the settings that did not finish, by status.
fn failures(group: &Group<'_>) -> Vec<String> {
    let ended = |status: Status| group.rows.iter().filter(move |row| row.status == Some(status));
    let mut sentences = Vec::new();
    for status in [Status::Diverged, Status::Oom, Status::Failed, Status::Timeout] {
        let rows: Vec<_> = ended(status).collect();
        let verb = match status {
            Status::Diverged => "diverged",
            Status::Oom => "ran out of memory",
            Status::Timeout => "timed out",
            _ => "failed",
        };
        match rows.as_slice() {
            [] => {}
            [row] => {
                let why = row
                    .reason
                    .as_ref()
                    .map(|why| format!(": {why}"))
                    .unwrap_or_default();
                sentences.push(format!("{} {verb}{why}.", group.label(row, &[])));
            }
            [first, .., last] => sentences.push(format!(
                "{} settings {verb}, from {} to {}; the table lists the reasons.",
                rows.len(),
                group.label(first, &[]),
                group.label(last, &[]),
            )),
        }
    }
    sentences
}
