//! What the gate says of a comparison.

use std::collections::BTreeSet;

use mantissa_core::{CellId, MetricName};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Change, ComparedCell, Comparison, Day, FindingKind, Outcome, Policy, told::short};

/// Longest name in a verdict, in characters.
const NAME: usize = 50;

/// What the gate says of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Gated {
    /// Everything that was compared.
    pub comparison: Comparison,
    /// Regressions of which no allowance speaks.
    pub failures: Vec<Failure>,
    /// Regressions of which one does. They fail all the same once its day is over.
    pub allowed: Vec<AllowedFailure>,
    /// Changes of which nothing can be said.
    pub undecided: usize,
    /// Whether that nothing can be said of a change fails too.
    pub strict: bool,
}

/// A regression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Which of the cells of the comparison.
    pub cell: usize,
    /// The metric that got worse; none if it is something else that was found.
    pub metric: Option<MetricName>,
    /// What else it is that was found; none of a metric.
    pub finding: Option<FindingKind>,
    /// What happened, in a sentence.
    pub text: String,
}

/// A regression that is allowed for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllowedFailure {
    /// What got worse.
    pub failure: Failure,
    /// The last day on which it is allowed.
    #[serde(serialize_with = "day")]
    pub until: Day,
    /// Why.
    pub reason: String,
    /// Whether that day is over.
    pub expired: bool,
}

/// How a gate ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Nothing regressed that is not allowed to.
    Passed,
    /// Something did.
    Failed,
    /// Nothing did, and not everything could be decided, which was to fail.
    Undecided,
}

impl Gate {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Undecided => "undecided",
        }
    }
}

impl Gated {
    /// Holds a comparison to a policy. `today`: the day for which allowances are asked. `strict`: what is undecided fails.
    pub fn new(comparison: Comparison, policy: &Policy, today: Day, strict: bool) -> Self {
        let (mut failures, mut allowed) = (vec![], vec![]);
        for (index, cell) in comparison.cells.iter().enumerate() {
            for failure in cell.regressions(index) {
                let metric = failure.metric;
                // The allowance that lasts longest counts.
                let allowance = policy
                    .allow
                    .iter()
                    .filter(|allowance| allowance.concerns(cell, metric))
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
        let undecided = comparison
            .outcomes()
            .filter(|outcome| *outcome == Outcome::Inconclusive)
            .count();
        Self {
            comparison,
            failures,
            allowed,
            undecided,
            strict,
        }
    }

    /// The cells of which something is undecided and nothing is worse: what is to be measured again. A cell that is worse stays so, however
    /// often it is asked.
    pub fn undecided_cells(&self) -> impl Iterator<Item = &CellId> {
        let cells = self.comparison.cells.iter();
        let undecided = cells.filter(|cell| {
            let any = |asked| cell.outcomes().any(|outcome| outcome == asked);
            any(Outcome::Inconclusive) && !any(Outcome::Regressed)
        });
        undecided.map(|cell| &cell.id)
    }

    /// Whether anything could be decided: of no cell there is a verdict if too few processes ran to their end.
    pub fn decides(&self) -> bool {
        let cells = &self.comparison.cells;
        let mut changes = cells.iter().flat_map(|cell| &cell.changes);
        let mut findings = cells.iter().flat_map(|cell| &cell.findings);
        changes.any(|change| change.verdict != Outcome::Inconclusive || change.p.is_some())
            || findings.any(|finding| {
                finding.kind == FindingKind::Status && finding.verdict != Outcome::Inconclusive
            })
            || !self.failures.is_empty()
            || !self.allowed.is_empty()
    }

    /// How it ends.
    pub fn gate(&self) -> Gate {
        match (self.failing().next(), self.undecided) {
            (Some(_), _) => Gate::Failed,
            (None, undecided) if undecided > 0 && self.strict => Gate::Undecided,
            _ => Gate::Passed,
        }
    }

    /// The regressions that fail: those of which no allowance speaks, and those whose allowance is over.
    pub fn failing(&self) -> impl Iterator<Item = &Failure> {
        let expired = self.allowed.iter().filter(|allowed| allowed.expired);
        self.failures
            .iter()
            .chain(expired.map(|allowed| &allowed.failure))
    }

    /// The regressions that may be.
    pub fn tolerated(&self) -> impl Iterator<Item = &AllowedFailure> {
        self.allowed.iter().filter(|allowed| !allowed.expired)
    }

    /// Whether it stops a pull request.
    pub fn fails(&self) -> bool {
        self.failing().next().is_some() || (self.strict && self.undecided > 0)
    }

    /// The cell of a regression.
    pub fn cell(&self, failure: &Failure) -> Option<&ComparedCell> {
        self.comparison.cells.get(failure.cell)
    }

    /// What is known of the metric of a regression.
    pub fn change(&self, failure: &Failure) -> Option<&Change> {
        let changes = &self.cell(failure)?.changes;
        changes
            .iter()
            .find(|change| Some(change.metric) == failure.metric)
    }

    /// The verdict in words: `2 regressions in 40 cells of smoke, main → 20261122T054956Z; 3 changes undecided`.
    pub fn verdict(&self) -> String {
        let comparison = &self.comparison;
        let regressions = match self.failing().count() {
            0 => "no regression".to_owned(),
            count => counted(count, "regression"),
        };
        let suites: BTreeSet<&str> = comparison.cells.iter().map(|cell| &*cell.suite).collect();
        let suites = match suites.len() {
            0..=3 => suites
                .into_iter()
                .map(|suite| short(suite, NAME))
                .collect::<Vec<_>>()
                .join(", "),
            count => counted(count, "suite"),
        };
        let mut words = format!(
            "{regressions} in {} of {}, {} → {}",
            counted(comparison.cells.len(), "cell"),
            suites,
            short(&comparison.baseline.name, NAME),
            short(&comparison.candidate.name, NAME),
        );
        match self.tolerated().count() {
            0 => {}
            count => words += &format!("; {} allowed", counted(count, "regression")),
        }
        match (self.undecided, self.strict) {
            (0, _) => {}
            (count, false) => words += &format!("; {} undecided", counted(count, "change")),
            (count, true) => words += &format!("; {} undecided, which fails here", counted(count, "change")),
        }
        words
    }
}

impl ComparedCell {
    /// What regressed of it; `index`: which of the cells it is.
    fn regressions(&self, index: usize) -> impl Iterator<Item = Failure> {
        let findings = self
            .findings
            .iter()
            .filter(|finding| finding.verdict == Outcome::Regressed);
        let changes = self
            .changes
            .iter()
            .filter(|change| change.verdict == Outcome::Regressed);
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

/// `1 cell`, `2 cells`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn day<S: Serializer>(day: &Day, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(day)
}
