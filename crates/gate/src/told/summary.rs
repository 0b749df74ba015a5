//! What there is to say of a comparison beside its regressions.

use std::collections::{BTreeMap, BTreeSet};

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
    }
}

/// By reason, the changes of which nothing can be said, and their cells; the most frequent first.
pub(crate) fn doubts(gated: &Gated) -> Vec<(&str, (usize, usize))> {
    let mut doubts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for cell in &gated.comparison.cells {
        let mut of_cell: BTreeMap<&str, usize> = BTreeMap::new();
        for change in cell
            .changes
            .iter()
            .filter(|change| change.verdict == Outcome::Inconclusive)
        {
            *of_cell.entry(&change.doubt).or_default() += 1;
        }
        for (doubt, changes) in of_cell {
            let entry = doubts.entry(doubt).or_default();
            *entry = (entry.0 + changes, entry.1 + 1);
        }
    }
    let mut doubts: Vec<_> = doubts.into_iter().collect();
    doubts.sort_by_key(|(doubt, (changes, _))| (usize::MAX - changes, *doubt));
    doubts
}
