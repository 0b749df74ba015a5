//! Claims of how cells end: a status is what happened, and a single process shows it.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_analysis::Finding;
use mantissa_core::{Axis, AxisValue, ExecutedVerdict, Record, Status};

use crate::{
    Group, Row,
    claims::{
        pairs::{has, together, unfit},
        verdict::{Outcome, Subject},
    },
};

/// Tests it on every setting of a group that has these values; seeds are put together.
pub(crate) fn subjects<'g, 'a>(
    group: &'g Group<'a>,
    of: &BTreeMap<Axis, AxisValue>,
    claimed: &[Status],
) -> Vec<Subject<'g, 'a>> {
    let (settings, _) = together(group, |row| has(row, of), |_| false);
    let subject = |rows: Vec<&'g Row<'a>>| Subject {
        label: rows
            .first()
            .map(|row| group.label(row, &[Axis::Seed]))
            .unwrap_or_default(),
        outcome: outcome(group, &rows, claimed),
        metric: None,
        rows,
    };
    settings.into_iter().map(subject).collect()
}

fn outcome(group: &Group<'_>, rows: &[&Row<'_>], claimed: &[Status]) -> Outcome {
    let fits = |row: &&&Row<'_>| row.verdict() != Some(ExecutedVerdict::Differs);
    let records = rows.iter().filter(fits).flat_map(|row| &row.records);
    let ended: Vec<&&Record> = records
        .filter(|record| claimed.contains(&record.status) || shows_how_it_ends(record.status))
        .collect();
    if ended.is_empty() {
        let why = rows.iter().find_map(|row| unfit(group, row));
        return Outcome::NotTested(why.unwrap_or_else(|| "nothing ran".to_owned()));
    }
    let as_claimed = ended
        .iter()
        .filter(|record| claimed.contains(&record.status))
        .count();
    let finding = match as_claimed {
        0 => Finding::Refuted,
        all if all == ended.len() => Finding::Confirmed,
        _ => Finding::Inconclusive,
    };
    let statuses: BTreeSet<Status> = ended.iter().map(|record| record.status).collect();
    let counts: Vec<String> = statuses
        .into_iter()
        .map(|status| {
            let count = ended.iter().filter(|record| record.status == status).count();
            format!("{status} in {count} of {}", processes(ended.len()))
        })
        .collect();
    Outcome::Tested {
        finding,
        evidence: format!("ended as {}", counts.join(", ")),
    }
}

/// Whether a process got so far that its status is that of the arithmetic. One that was killed, or found no memory or no time, says
/// nothing of it.
fn shows_how_it_ends(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Diverged)
}

fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}
