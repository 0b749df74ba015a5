//! Tests claims about the status of cells. Such a claim concerns most trainings; a single training shows only that a status is possible.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_analysis::{Evidence, test_claim};
use mantissa_core::{Axis, AxisValue, Bounds, ExecutedVerdict, Record, Status, TaskKind};

use crate::{
    Group, Row,
    claims::{
        pairs::{group_rows, has, unfit},
        sentences,
        verdict::{ClaimOutcome, Subject},
    },
};

/// Bounds for a majority: more than half.
const MOST: Bounds = Bounds {
    above: Some(0.5),
    below: None,
};

/// Counts of the statuses of a setting's cells.
pub(crate) struct Endings {
    /// `true` if seeds are counted, as for trainings; for other tasks, each process is counted.
    pub of_seeds: bool,
    pub as_claimed: u64,
    pub otherwise: u64,
    /// Seeds whose processes ended partly as claimed and partly otherwise.
    pub torn: u64,
    /// Each status and its number of processes.
    pub statuses: Vec<(Status, usize)>,
}

impl Endings {
    pub fn evidence(&self) -> Evidence {
        Evidence::Ends {
            as_claimed: self.as_claimed,
            otherwise: self.otherwise,
            torn: self.torn,
        }
    }
}

/// Tests the claim on every setting with these values. Seeds are grouped, and all settings form one family of tests.
pub(crate) fn subjects<'g, 'a>(
    groups: impl Iterator<Item = &'g Group<'a>>,
    of: &BTreeMap<Axis, AxisValue>,
    claimed: &[Status],
) -> Vec<Subject<'g, 'a>>
where
    'a: 'g,
{
    let settings = groups.flat_map(|group| {
        let (settings, _) = group_rows(group, |row| has(row, of), |_| false);
        settings.into_iter().map(move |rows| (group, rows))
    });
    let ended: Vec<_> = settings
        .map(|(group, rows)| {
            let endings = endings(group, &rows, claimed);
            (group, rows, endings)
        })
        .collect();
    let evidence: Vec<Evidence> = ended
        .iter()
        .filter_map(|(_, _, endings)| Some(endings.as_ref().ok()?.evidence()))
        .collect();
    let mut tested = test_claim(&evidence, MOST).into_iter();
    let subject =
        |(group, rows, endings): (&'g Group<'a>, Vec<&'g Row<'a>>, Result<Endings, String>)| Subject {
            label: rows
                .first()
                .map(|row| group.label(row, &[Axis::Seed]))
                .unwrap_or_default(),
            outcome: match endings {
                Err(why) => ClaimOutcome::NotTested(why),
                Ok(endings) => tested.next().map_or_else(
                    || ClaimOutcome::NotTested("no process ran".to_owned()),
                    |tested| ClaimOutcome::Tested {
                        finding: tested.finding,
                        test: sentences::test(&endings.evidence(), MOST, endings.of_seeds),
                        evidence: sentences::endings(&endings, &tested, evidence.len()),
                    },
                ),
            },
            metric: None,
            learnt: None,
            rows,
        };
    ended.into_iter().map(subject).collect()
}

fn endings(group: &Group<'_>, rows: &[&Row<'_>], claimed: &[Status]) -> Result<Endings, String> {
    let fits = |row: &&&Row<'_>| row.verdict() != Some(ExecutedVerdict::Differs);
    let counts = |record: &&&Record| claimed.contains(&record.status) || is_evidence(record.status);
    let of_rows: Vec<Vec<&Record>> = rows
        .iter()
        .filter(fits)
        .map(|row| row.records.iter().filter(counts).copied().collect())
        .collect();
    let all: Vec<&Record> = of_rows.iter().flatten().copied().collect();
    if all.is_empty() {
        let why = rows.iter().find_map(|row| unfit(group, row));
        return Err(why.unwrap_or_else(|| "no process ran".to_owned()));
    }
    let of_seeds = rows.iter().all(|row| row.cell.workload.kind() == TaskKind::Train);
    let units: Vec<Vec<&Record>> = if of_seeds {
        of_rows
            .into_iter()
            .filter(|records| !records.is_empty())
            .collect()
    } else {
        all.iter().map(|record| vec![*record]).collect()
    };
    let ends = |unit: &&Vec<&Record>, expected: bool| {
        let mut records = unit.iter();
        records.all(|record| claimed.contains(&record.status) == expected)
    };
    let count = |expected: bool| units.iter().filter(|unit| ends(unit, expected)).count();
    let (as_claimed, otherwise) = (count(true), count(false));
    let statuses: BTreeSet<Status> = all.iter().map(|record| record.status).collect();
    let of_status = |status: Status| all.iter().filter(|record| record.status == status).count();
    Ok(Endings {
        of_seeds,
        as_claimed: as_claimed as u64,
        otherwise: otherwise as u64,
        torn: (units.len() - as_claimed - otherwise) as u64,
        statuses: statuses
            .into_iter()
            .map(|status| (status, of_status(status)))
            .collect(),
    })
}

/// Returns `true` if the status of a process results from its arithmetic. A process that was killed, ran out of memory or timed out gives
/// no evidence.
fn is_evidence(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Diverged)
}
