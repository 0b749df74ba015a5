//! Suites whose cells were all skipped, by the input that they need.

use mantissa_core::Status;

use crate::{Report, Suite};

/// Suites whose cells were all skipped for the same kind of reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SkippedSuites {
    /// Indices in the report and names of the suites.
    pub suites: Vec<(usize, String)>,
    /// Missing input with the option that passes it, or the reason of the first skipped cell.
    pub needs: String,
}

/// Options that pass an input, with the input. The reason of a skipped cell names the option.
const INPUTS: [(&str, &str); 2] = [
    (
        "--weights",
        "trained weights are missing: pass `--weights [WORKLOAD=]PATH` (source: page of the suite), or `--init random` for times and memory only",
    ),
    (
        "--data",
        "a data set is missing: pass `--data PATH` (source: page of the suite)",
    ),
];

/// Returns `true` if all cells of a suite were skipped.
pub(super) fn is_skipped(suite: &Suite<'_>) -> bool {
    let mut rows = suite.groups.iter().flat_map(|group| &group.rows);
    rows.all(|row| row.status == Some(Status::Skipped))
}

/// Groups the skipped suites by what they need.
pub(super) fn group(report: &Report<'_>, skipped: &[usize]) -> Vec<SkippedSuites> {
    let mut groups: Vec<SkippedSuites> = Vec::new();
    for &index in skipped {
        let suite = &report.suites[index];
        let (needs, named) = (needs(suite), (index, suite.info.name.clone()));
        match groups.iter_mut().find(|group| group.needs == needs) {
            Some(group) => group.suites.push(named),
            None => groups.push(SkippedSuites {
                suites: vec![named],
                needs,
            }),
        }
    }
    groups
}

fn needs(suite: &Suite<'_>) -> String {
    let reasons = || {
        let rows = suite.groups.iter().flat_map(|group| &group.rows);
        rows.filter_map(|row| row.reason.as_deref())
    };
    let input = INPUTS
        .iter()
        .find(|(option, _)| reasons().any(|reason| reason.contains(option)));
    match input {
        Some((_, needs)) => (*needs).to_owned(),
        None => reasons().next().unwrap_or("no reason was recorded").to_owned(),
    }
}
