//! JUnit XML for Jenkins, GitLab and others (the schema of Jenkins' xUnit plugin, `junit-10.xsd`).

use std::collections::BTreeMap;

use chrono::DateTime;
use mantissa_core::MetricName;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::{
    change_text::ChangeText,
    escape::{cut, short},
};
use crate::{ChangeVerdict, ComparedCell, Failure, GateReport, gate_report::counted};

/// Maximum length of a name, in characters.
const NAME: usize = 500;
/// Maximum length of a line of details, in characters.
const LINE: usize = 2000;

/// Renders a test suite per suite and a test case per cell. A failing case lists its regressions. A case with inconclusive comparisons is
/// skipped, or an error if the gate is strict. Details are in the output of the case. There are no durations because the gate does not
/// measure them.
pub fn junit(gated: &GateReport) -> String {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for (index, cell) in gated.comparison.cells.iter().enumerate() {
        let suite = suites
            .entry(&cell.suite)
            .or_insert_with(|| empty_suite(gated, &cell.suite));
        suite.add_test_case(test_case(gated, index, cell));
    }
    let mut report = Report::new("mantissa gate");
    report.add_test_suites(suites.into_values());
    let xml = report.to_string().expect("writing to memory succeeds");
    // Jenkins' schema does not allow this attribute of the root element.
    xml.replacen(&format!(" skipped=\"{}\"", report.skipped), "", 1)
}

/// Returns a suite without test cases.
fn empty_suite(gated: &GateReport, name: &str) -> TestSuite {
    let (before, after) = (&gated.comparison.baseline, &gated.comparison.candidate);
    let properties = [
        ("baseline", Some(&before.name)),
        ("baseline-revision", before.revision.as_ref()),
        ("candidate", Some(&after.name)),
        ("candidate-revision", after.revision.as_ref()),
        ("machine", Some(&after.machine)),
    ];
    let mut suite = TestSuite::new(short(name, NAME));
    if let Ok(started) = DateTime::parse_from_rfc3339(&after.started) {
        suite.set_timestamp(started);
    }
    for (name, value) in properties {
        if let Some(value) = value {
            suite.add_property(Property::new(name, short(value, NAME)));
        }
    }
    suite
}

/// Returns the test case of a cell.
fn test_case(gated: &GateReport, index: usize, cell: &ComparedCell) -> TestCase {
    let failing: Vec<&Failure> = gated.failing().filter(|failure| failure.cell == index).collect();
    let status = match failing.as_slice() {
        [] => inconclusive(gated, cell),
        failing => failed(gated, failing),
    };
    let name = format!("{} [{}]", cut(&cell.setting, NAME - 20), cell.id);
    let mut case = TestCase::new(short(&name, NAME), status);
    case.set_classname(short(&format!("{}.{}", cell.suite, cell.workload), NAME));
    let found = cell
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.verdict.name(), finding.text));
    let measured = cell
        .changes
        .iter()
        .map(|change| format!("{}: {}", change.verdict.name(), ChangeText::sentence(change)));
    let allowed = gated.tolerated().filter(|allowed| allowed.failure.cell == index);
    let allowed = allowed.map(|allowed| {
        format!(
            "allowed until {}: {} ({})",
            allowed.until, allowed.failure.text, allowed.reason
        )
    });
    let rerun = (!cell.command.is_empty()).then(|| format!("rerun: {}", cell.command));
    let details = found.chain(measured).chain(allowed).chain(rerun);
    let details: Vec<String> = details.map(|line| short(&line, LINE)).collect();
    if !details.is_empty() {
        case.set_system_out(details.join("\n"));
    }
    case
}

/// Joins all regressions of a case in one failure, because JUnit readers accept only one per case.
fn failed(gated: &GateReport, failing: &[&Failure]) -> TestCaseStatus {
    let kind = |failure: &&Failure| failure.metric.map_or("finding", MetricName::name);
    let kinds: Vec<&str> = failing.iter().map(kind).collect();
    let text = |failure: &&Failure| {
        let change = gated.change(failure);
        change.map_or_else(|| failure.text.clone(), ChangeText::sentence)
    };
    let texts: Vec<String> = failing.iter().map(text).collect();
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(short(&kinds.join(", "), NAME));
    status.set_message(short(&texts.join("; "), LINE));
    status
}

/// Returns the status of a case without regressions.
fn inconclusive(gated: &GateReport, cell: &ComparedCell) -> TestCaseStatus {
    let is_inconclusive = |outcome: &ChangeVerdict| *outcome == ChangeVerdict::Inconclusive;
    let found = cell.findings.iter().map(|finding| finding.verdict);
    let undecided = found
        .chain(cell.changes.iter().map(|change| change.verdict))
        .filter(is_inconclusive)
        .count();
    let all = cell.findings.len() + cell.changes.len();
    let text = match undecided {
        0 if all == 0 => "the cell has no comparisons".to_owned(),
        0 => return TestCaseStatus::success(),
        _ => format!("{undecided} of {} inconclusive", counted(all, "change")),
    };
    let mut status = match gated.strict && undecided > 0 {
        true => TestCaseStatus::non_success(NonSuccessKind::Error),
        false => TestCaseStatus::skipped(),
    };
    status.set_type("undecided");
    status.set_message(text);
    status
}
