//! Statuses of a setting's cells as evidence for a claim.

use std::collections::BTreeSet;

use mantissa_analysis::Evidence;
use mantissa_core::{ExecutedVerdict, Record, Status, TaskKind};

use crate::{Group, Row, claims::pairs::exclusion_reason};

/// Counts of the statuses of a setting's cells.
pub(crate) struct Endings {
    /// `true` if the counts are numbers of seeds (trainings), `false` if they are numbers of processes (other tasks).
    pub of_seeds: bool,
    pub as_claimed: u64,
    pub otherwise: u64,
    /// Number of seeds for which some processes ended with a claimed status and others did not.
    pub torn: u64,
    /// Each status and its number of processes.
    pub statuses: Vec<(Status, usize)>,
}

impl Endings {
    /// Counts the statuses of the cells of a setting. Returns the reason as error if no process gives evidence.
    pub fn of(group: &Group<'_>, rows: &[&Row<'_>], claimed: &[Status]) -> Result<Self, String> {
        let fits = |row: &&&Row<'_>| row.verdict() != Some(ExecutedVerdict::Differs);
        let counts = |record: &&&Record| claimed.contains(&record.status) || is_evidence(record.status);
        let of_rows: Vec<Vec<&Record>> = rows
            .iter()
            .filter(fits)
            .map(|row| row.records.iter().filter(counts).copied().collect())
            .collect();
        let all: Vec<&Record> = of_rows.iter().flatten().copied().collect();
        if all.is_empty() {
            let why = rows.iter().find_map(|row| exclusion_reason(group, row));
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
        Ok(Self {
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

    /// Converts the counts to the evidence of a test.
    pub fn evidence(&self) -> Evidence {
        Evidence::Ends {
            as_claimed: self.as_claimed,
            otherwise: self.otherwise,
            torn: self.torn,
        }
    }
}

/// Returns `true` if the status of a process results from its arithmetic. A process that was killed, ran out of memory or timed out gives
/// no evidence.
fn is_evidence(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Diverged)
}
