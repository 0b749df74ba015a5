//! Summaries of findings and inconclusive comparisons.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_report::ABSENT;

use crate::{ChangeVerdict, ComparedCell, Finding, FindingKind, GateReport};

/// Returns the findings that are not listed as regressions and are not `unchanged`.
pub(crate) fn other_findings(report: &GateReport) -> impl Iterator<Item = (&ComparedCell, &Finding)> {
    let allowed = report.allowed.iter().map(|allowed| &allowed.failure);
    let failures: BTreeSet<(usize, &str)> = allowed
        .chain(&report.failures)
        .filter(|failure| failure.metric.is_none())
        .map(|failure| (failure.cell, &*failure.text))
        .collect();
    let cells = report.comparison.cells.iter().enumerate();
    let all = cells.flat_map(|(index, cell)| cell.findings.iter().map(move |finding| (index, cell, finding)));
    let others = all.filter(move |(index, _, finding)| {
        finding.verdict != ChangeVerdict::Unchanged && !failures.contains(&(*index, &*finding.text))
    });
    others.map(|(_, cell, finding)| (cell, finding))
}

/// Returns a short name for a kind of finding.
pub(crate) fn finding_kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Vanished => "vanished cell",
        FindingKind::New => "new cell",
        FindingKind::Status => "status",
        FindingKind::Executed => "executed precision",
        FindingKind::Kernel => "kernel",
        FindingKind::Lost => "lost",
    }
}

/// Inconclusive comparisons that have the same reason.
#[derive(Default)]
pub(crate) struct InconclusiveGroup<'a> {
    pub reason: &'a str,
    pub changes: usize,
    pub cells: usize,
    /// Relative change that is detected in each of these comparisons with a power of 95 %.
    pub catches: Option<f64>,
}

impl InconclusiveGroup<'_> {
    /// Formats the relative change that is detected in each of these comparisons: `±12.0 %`.
    pub fn detectable_change(&self) -> String {
        match self.catches {
            Some(share) if share.is_finite() => format!("±{:.1} %", 100.0 * share),
            _ => ABSENT.to_owned(),
        }
    }
}

/// Groups inconclusive comparisons by reason, the most frequent first.
pub(crate) fn inconclusive_groups(report: &GateReport) -> Vec<InconclusiveGroup<'_>> {
    let mut groups: BTreeMap<&str, InconclusiveGroup<'_>> = BTreeMap::new();
    for cell in &report.comparison.cells {
        let mut cell_groups: BTreeMap<&str, InconclusiveGroup<'_>> = BTreeMap::new();
        for change in cell
            .changes
            .iter()
            .filter(|change| change.verdict == ChangeVerdict::Inconclusive)
        {
            let group = cell_groups.entry(&change.doubt).or_default();
            group.changes += 1;
            let share = change.catches.filter(|_| !change.difference);
            group.catches = larger(group.catches, share);
        }
        for (reason, cell_group) in cell_groups {
            let group = groups.entry(reason).or_default();
            group.reason = reason;
            group.changes += cell_group.changes;
            group.cells += 1;
            group.catches = larger(group.catches, cell_group.catches);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| (usize::MAX - group.changes, group.reason));
    groups
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}
