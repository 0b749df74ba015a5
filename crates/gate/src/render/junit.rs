//! JUnit XML for Jenkins, GitLab and others, in the schema of Jenkins' xUnit plugin (`junit-10.xsd`).

use std::collections::BTreeMap;

use chrono::DateTime;
use mantissa_core::MetricName;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::{
    change_text::ChangeText,
    escape::{shorten, truncate},
};
use crate::{ChangeVerdict, ComparedCell, Failure, GateReport, gate_report::pluralize};

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 500;
/// Maximum length of a line of details, in characters.
const MAX_LINE_CHARS: usize = 2000;

/// Renders a test suite for each suite and a test case for each cell. A failing case lists its regressions. A case with inconclusive
/// comparisons is skipped, or an error if the gate is strict. The output of a case contains the details. Omits durations, which the gate
/// does not measure.
pub fn junit(report: &GateReport) -> String {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for (index, cell) in report.comparison.cells.iter().enumerate() {
        let suite = suites
            .entry(&cell.suite)
            .or_insert_with(|| empty_suite(report, &cell.suite));
        suite.add_test_case(test_case(report, index, cell));
    }
    let mut junit_report = Report::new("mantissa gate");
    junit_report.add_test_suites(suites.into_values());
    let xml = junit_report.to_string().expect("writing to memory succeeds");
    // Remove the attribute `skipped` of the root element, which Jenkins' schema does not allow.
    xml.replacen(&format!(" skipped=\"{}\"", junit_report.skipped), "", 1)
}

/// Returns a suite without test cases.
fn empty_suite(report: &GateReport, name: &str) -> TestSuite {
    let (before, after) = (&report.comparison.baseline, &report.comparison.candidate);
    let properties = [
        ("baseline", Some(&before.name)),
        ("baseline-revision", before.revision.as_ref()),
        ("candidate", Some(&after.name)),
        ("candidate-revision", after.revision.as_ref()),
        ("machine", Some(&after.machine)),
    ];
    let mut suite = TestSuite::new(shorten(name, MAX_NAME_CHARS));
    if let Ok(started) = DateTime::parse_from_rfc3339(&after.started) {
        suite.set_timestamp(started);
    }
    for (name, value) in properties {
        if let Some(value) = value {
            suite.add_property(Property::new(name, shorten(value, MAX_NAME_CHARS)));
        }
    }
    suite
}

/// Returns the test case of a cell.
fn test_case(report: &GateReport, index: usize, cell: &ComparedCell) -> TestCase {
    let failing: Vec<&Failure> = report.failing().filter(|failure| failure.cell == index).collect();
    let status = match failing.as_slice() {
        [] => non_failing_status(report, cell),
        failing => failure_status(report, failing),
    };
    let name = format!("{} [{}]", truncate(&cell.setting, MAX_NAME_CHARS - 20), cell.id);
    let mut case = TestCase::new(shorten(&name, MAX_NAME_CHARS), status);
    case.set_classname(shorten(
        &format!("{}.{}", cell.suite, cell.workload),
        MAX_NAME_CHARS,
    ));
    let found = cell
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.verdict.name(), finding.text));
    let measured = cell
        .changes
        .iter()
        .map(|change| format!("{}: {}", change.verdict.name(), ChangeText::sentence(change)));
    let allowed = report.tolerated().filter(|allowed| allowed.failure.cell == index);
    let allowed = allowed.map(|allowed| {
        format!(
            "allowed until {}: {} ({})",
            allowed.until, allowed.failure.text, allowed.reason
        )
    });
    let rerun = (!cell.command.is_empty()).then(|| format!("rerun: {}", cell.command));
    let details = found.chain(measured).chain(allowed).chain(rerun);
    let details: Vec<String> = details.map(|line| shorten(&line, MAX_LINE_CHARS)).collect();
    if !details.is_empty() {
        case.set_system_out(details.join("\n"));
    }
    case
}

/// Joins all regressions of a case in one failure, because JUnit readers accept only one failure per case.
fn failure_status(report: &GateReport, failing: &[&Failure]) -> TestCaseStatus {
    let kind = |failure: &&Failure| failure.metric.map_or("finding", MetricName::name);
    let kinds: Vec<&str> = failing.iter().map(kind).collect();
    let text = |failure: &&Failure| {
        let change = report.change(failure);
        change.map_or_else(|| failure.text.clone(), ChangeText::sentence)
    };
    let texts: Vec<String> = failing.iter().map(text).collect();
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(shorten(&kinds.join(", "), MAX_NAME_CHARS));
    status.set_message(shorten(&texts.join("; "), MAX_LINE_CHARS));
    status
}

/// Returns the status of a case without regressions. Inconclusive comparisons are an error in a strict gate; otherwise the case is skipped.
/// A case without comparisons is also skipped. All other cases succeed.
fn non_failing_status(report: &GateReport, cell: &ComparedCell) -> TestCaseStatus {
    let is_inconclusive = |outcome: &ChangeVerdict| *outcome == ChangeVerdict::Inconclusive;
    let found = cell.findings.iter().map(|finding| finding.verdict);
    let inconclusive_count = found
        .chain(cell.changes.iter().map(|change| change.verdict))
        .filter(is_inconclusive)
        .count();
    let all = cell.findings.len() + cell.changes.len();
    let text = match inconclusive_count {
        0 if all == 0 => "the cell has no comparisons".to_owned(),
        0 => return TestCaseStatus::success(),
        _ => format!(
            "{inconclusive_count} of {} inconclusive",
            pluralize(all, "change")
        ),
    };
    let mut status = match report.strict && inconclusive_count > 0 {
        true => TestCaseStatus::non_success(NonSuccessKind::Error),
        false => TestCaseStatus::skipped(),
    };
    status.set_type("undecided");
    status.set_message(text);
    status
}
