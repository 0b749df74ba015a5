//! What there is to say of a comparison beside its regressions.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_report::ABSENT;

use crate::{ComparedCell, Finding, FindingKind, Gated, Outcome};

/// What was found and is not told among the regressions.
pub(crate) fn other_findings(gated: &Gated) -> impl Iterator<Item = (&ComparedCell, &Finding)> {
    let allowed = gated.allowed.iter().map(|allowed| &allowed.failure);
    let failures: BTreeSet<(usize, &str)> = allowed
        .chain(&gated.failures)
        .filter(|failure| failure.metric.is_none())
        .map(|failure| (failure.cell, &*failure.text))
        .collect();
    let cells = gated.comparison.cells.iter().enumerate();
    let all = cells.flat_map(|(index, cell)| cell.findings.iter().map(move |finding| (index, cell, finding)));
    let others = all.filter(move |(index, _, finding)| {
        finding.verdict != Outcome::Unchanged && !failures.contains(&(*index, &*finding.text))
    });
    others.map(|(_, cell, finding)| (cell, finding))
}

/// A kind of finding in a word or two.
pub(crate) fn about(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Vanished => "vanished cell",
        FindingKind::New => "new cell",
        FindingKind::Status => "status",
        FindingKind::Executed => "executed precision",
        FindingKind::Kernel => "kernel",
        FindingKind::Lost => "lost",
    }
}

/// Why nothing can be said of some changes.
#[derive(Default)]
pub(crate) struct Doubted<'a> {
    pub reason: &'a str,
    pub changes: usize,
    pub cells: usize,
    /// From here on a change of any of them by a share would have been found in 95 of 100 tries.
    pub catches: Option<f64>,
}

impl Doubted<'_> {
    /// From which change on all of them see it: `±12 %`.
    pub fn seen_from(&self) -> String {
        match self.catches {
            Some(share) if share.is_finite() => format!("±{:.1} %", 100.0 * share),
            _ => ABSENT.to_owned(),
        }
    }
}

/// By reason, the changes of which nothing can be said, the most frequent first.
pub(crate) fn doubts(gated: &Gated) -> Vec<Doubted<'_>> {
    let mut doubts: BTreeMap<&str, Doubted<'_>> = BTreeMap::new();
    for cell in &gated.comparison.cells {
        let mut of_cell: BTreeMap<&str, Doubted<'_>> = BTreeMap::new();
        for change in cell
            .changes
            .iter()
            .filter(|change| change.verdict == Outcome::Inconclusive)
        {
            let doubted = of_cell.entry(&change.doubt).or_default();
            doubted.changes += 1;
            let share = change.catches.filter(|_| !change.difference);
            doubted.catches = larger(doubted.catches, share);
        }
        for (reason, of_cell) in of_cell {
            let doubted = doubts.entry(reason).or_default();
            doubted.reason = reason;
            doubted.changes += of_cell.changes;
            doubted.cells += 1;
            doubted.catches = larger(doubted.catches, of_cell.catches);
        }
    }
    let mut doubts: Vec<_> = doubts.into_values().collect();
    doubts.sort_by_key(|doubted| (usize::MAX - doubted.changes, doubted.reason));
    doubts
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}
