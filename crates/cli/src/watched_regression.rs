//! Regression that `mantissa bisect` searches for, and its test in a comparison.

use mantissa_core::MetricName;
use mantissa_gate::{ChangeVerdict, Failure, FindingKind, GateReport};

/// Regression at the bad commit: a cell, and the metric or other finding that got worse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedRegression {
    cell: String,
    subject: String,
}

impl std::fmt::Display for WatchedRegression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.cell, self.subject)
    }
}

impl std::str::FromStr for WatchedRegression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cell, subject) = text.split_once(':').ok_or("expected CELL:METRIC")?;
        Ok(Self {
            cell: cell.to_owned(),
            subject: subject.to_owned(),
        })
    }
}

impl WatchedRegression {
    /// Returns every regression of a gate report.
    pub(crate) fn all(report: &GateReport) -> Vec<Self> {
        let regression = |failure: &Failure| {
            let metric = failure.metric.map(MetricName::name);
            let finding = failure.finding.map(FindingKind::name);
            Some(Self {
                cell: report.cell(failure)?.id.to_string(),
                subject: metric.or(finding)?.to_owned(),
            })
        };
        report.failing().filter_map(regression).collect()
    }

    /// Returns true if the commit shows this regression, and `None` if the comparison is inconclusive.
    pub(crate) fn is_worse(&self, report: &GateReport) -> Option<bool> {
        if Self::all(report).contains(self) {
            return Some(true);
        }
        let cells = &report.comparison.cells;
        let cell = cells.iter().find(|cell| cell.id.as_str() == self.cell)?;
        let change = cell
            .changes
            .iter()
            .find(|change| change.metric.name() == self.subject);
        let finding = cell
            .findings
            .iter()
            .find(|finding| finding.kind.name() == self.subject);
        let is_probed = [FindingKind::Executed, FindingKind::Kernel]
            .iter()
            .any(|kind| kind.name() == self.subject);
        let probe_is_missing = cell.findings.iter().any(|finding| match finding.kind {
            FindingKind::Lost => true,
            FindingKind::Status => finding.verdict != ChangeVerdict::Improved,
            _ => false,
        });
        let is_metric = MetricName::ALL.iter().any(|metric| metric.name() == self.subject);
        let verdict = match (change, finding) {
            (Some(change), _) => change.verdict,
            (None, Some(finding)) => finding.verdict,
            // The commit is inconclusive if the metric was not measured or the precision was not probed. Any other absent finding means that
            // the property did not change.
            (None, None) if is_metric || (is_probed && probe_is_missing) => return None,
            (None, None) => ChangeVerdict::Unchanged,
        };
        (verdict != ChangeVerdict::Inconclusive).then_some(false)
    }
}
