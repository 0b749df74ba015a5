//! Result of the regression gate.

use std::collections::BTreeSet;

use mantissa_core::{CellId, MetricName};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Change, ChangeVerdict, ComparedCell, Comparison, Day, FindingKind, Policy, render::shorten};

/// Maximum length of a name in the text of a verdict, in characters.
const MAX_NAME_CHARS: usize = 50;

/// Result of the regression gate.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    /// The comparison that was checked.
    pub comparison: Comparison,
    /// Regressions without an allowance.
    pub failures: Vec<Failure>,
    /// Regressions with an allowance. They fail the gate if the allowance has expired.
    pub allowed: Vec<AllowedFailure>,
    /// Number of inconclusive comparisons.
    #[serde(rename = "undecided")]
    pub inconclusive: usize,
    /// True if inconclusive comparisons fail the gate.
    pub strict: bool,
}

/// Regression of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Index of the cell in the comparison.
    pub cell: usize,
    /// Regressed metric; `None` for a finding.
    pub metric: Option<MetricName>,
    /// Kind of the finding; `None` for a metric.
    pub finding: Option<FindingKind>,
    /// Description of the regression.
    pub text: String,
}

/// Regression that is allowed until a date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllowedFailure {
    /// The regression.
    pub failure: Failure,
    /// Last day of the allowance.
    #[serde(serialize_with = "serialize_day")]
    pub until: Day,
    /// Reason of the allowance.
    pub reason: String,
    /// True if the last day has passed.
    pub expired: bool,
}

/// Outcome of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// All regressions, if any, are allowed.
    Passed,
    /// There is a regression that is not allowed.
    Failed,
    /// All regressions, if any, are allowed. The gate is strict, and some comparisons are inconclusive.
    #[serde(rename = "undecided")]
    Inconclusive,
}

impl Gate {
    /// Returns the name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Inconclusive => "undecided",
        }
    }
}

impl GateReport {
    /// Applies a policy to a comparison. Allowances whose last day is before `today` have expired. `strict`: inconclusive comparisons fail
    /// the gate.
    pub fn new(comparison: Comparison, policy: &Policy, today: Day, strict: bool) -> Self {
        let (mut failures, mut allowed) = (vec![], vec![]);
        for (index, cell) in comparison.cells.iter().enumerate() {
            for failure in cell.regressions(index) {
                let metric = failure.metric;
                // If several allowances match, the latest date counts.
                let allowance = policy
                    .allow
                    .iter()
                    .filter(|allowance| allowance.applies_to(cell, metric))
                    .max_by_key(|allowance| allowance.until());
                match allowance {
                    None => failures.push(failure),
                    Some(allowance) => allowed.push(AllowedFailure {
                        failure,
                        until: allowance.until(),
                        reason: allowance.reason.clone(),
                        expired: allowance.until() < today,
                    }),
                }
            }
        }
        let inconclusive = comparison
            .outcomes()
            .filter(|outcome| *outcome == ChangeVerdict::Inconclusive)
            .count();
        Self {
            comparison,
            failures,
            allowed,
            inconclusive,
            strict,
        }
    }

    /// Returns the cells to measure again: those with an inconclusive comparison and without a regression. In a regressed cell, more
    /// processes would not change the verdict.
    pub fn inconclusive_cells(&self) -> impl Iterator<Item = &CellId> {
        let cells = self.comparison.cells.iter();
        let inconclusive = cells.filter(|cell| {
            let any = |verdict| cell.outcomes().any(|outcome| outcome == verdict);
            any(ChangeVerdict::Inconclusive) && !any(ChangeVerdict::Regressed)
        });
        inconclusive.map(|cell| &cell.id)
    }

    /// Returns true if the gate could judge any cell: a metric was tested or has a verdict, a change of exit status has a verdict, or there
    /// is a regression. Otherwise, no cell has enough completed processes.
    pub fn has_verdict(&self) -> bool {
        let cells = &self.comparison.cells;
        let mut changes = cells.iter().flat_map(|cell| &cell.changes);
        let mut findings = cells.iter().flat_map(|cell| &cell.findings);
        changes.any(|change| change.verdict != ChangeVerdict::Inconclusive || change.p.is_some())
            || findings.any(|finding| {
                finding.kind == FindingKind::Status && finding.verdict != ChangeVerdict::Inconclusive
            })
            || !self.failures.is_empty()
            || !self.allowed.is_empty()
    }

    /// Returns the outcome of the gate.
    pub fn gate(&self) -> Gate {
        match (self.failing().next(), self.inconclusive) {
            (Some(_), _) => Gate::Failed,
            (None, count) if count > 0 && self.strict => Gate::Inconclusive,
            _ => Gate::Passed,
        }
    }

    /// Returns the regressions that fail the gate: those without an allowance, and those whose allowance has expired.
    pub fn failing(&self) -> impl Iterator<Item = &Failure> {
        let expired = self.allowed.iter().filter(|allowed| allowed.expired);
        self.failures
            .iter()
            .chain(expired.map(|allowed| &allowed.failure))
    }

    /// Returns the regressions with a valid allowance.
    pub fn tolerated(&self) -> impl Iterator<Item = &AllowedFailure> {
        self.allowed.iter().filter(|allowed| !allowed.expired)
    }

    /// Returns true if the gate fails. Inconclusive comparisons fail a strict gate.
    pub fn fails(&self) -> bool {
        self.failing().next().is_some() || (self.strict && self.inconclusive > 0)
    }

    /// Returns the cell of a regression.
    pub fn cell(&self, failure: &Failure) -> Option<&ComparedCell> {
        self.comparison.cells.get(failure.cell)
    }

    /// Returns the change of a regressed metric.
    pub fn change(&self, failure: &Failure) -> Option<&Change> {
        let changes = &self.cell(failure)?.changes;
        changes
            .iter()
            .find(|change| Some(change.metric) == failure.metric)
    }

    /// Returns the verdict in one line: `2 regressions in 40 cells of smoke, main → 20261122T054956Z; 3 changes inconclusive`.
    pub fn verdict(&self) -> String {
        let comparison = &self.comparison;
        let regressions = match self.failing().count() {
            0 => "no regression".to_owned(),
            count => pluralize(count, "regression"),
        };
        let suites: BTreeSet<&str> = comparison.cells.iter().map(|cell| &*cell.suite).collect();
        let suites = match suites.len() {
            0..=3 => suites
                .into_iter()
                .map(|suite| shorten(suite, MAX_NAME_CHARS))
                .collect::<Vec<_>>()
                .join(", "),
            count => pluralize(count, "suite"),
        };
        let mut text = format!(
            "{regressions} in {} of {}, {} → {}",
            pluralize(comparison.cells.len(), "cell"),
            suites,
            shorten(&comparison.baseline.name, MAX_NAME_CHARS),
            shorten(&comparison.candidate.name, MAX_NAME_CHARS),
        );
        match self.tolerated().count() {
            0 => {}
            count => text += &format!("; {} allowed", pluralize(count, "regression")),
        }
        match (self.inconclusive, self.strict) {
            (0, _) => {}
            (count, false) => text += &format!("; {} inconclusive", pluralize(count, "change")),
            (count, true) => {
                text += &format!(
                    "; {} inconclusive, which fails the strict gate",
                    pluralize(count, "change")
                );
            }
        }
        text
    }
}

impl ComparedCell {
    /// Returns the regressions of the cell. `index`: position of the cell in the comparison.
    fn regressions(&self, index: usize) -> impl Iterator<Item = Failure> {
        let findings = self
            .findings
            .iter()
            .filter(|finding| finding.verdict == ChangeVerdict::Regressed);
        let changes = self
            .changes
            .iter()
            .filter(|change| change.verdict == ChangeVerdict::Regressed);
        let findings = findings.map(move |finding| Failure {
            cell: index,
            metric: None,
            finding: Some(finding.kind),
            text: finding.text.clone(),
        });
        findings.chain(changes.map(move |change| Failure {
            cell: index,
            metric: Some(change.metric),
            finding: None,
            text: change.text(),
        }))
    }
}

/// Formats a count and a noun: `1 cell`, `2 cells`.
pub(crate) fn pluralize(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn serialize_day<S: Serializer>(day: &Day, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(day)
}
