//! JUnit XML for Jenkins, GitLab and others (the schema of Jenkins' xUnit plugin, `junit-10.xsd`).

use std::collections::BTreeMap;

use mantissa_core::MetricName;

use super::{
    change_text::ChangeText,
    escape::{cut, plain, short},
};
use crate::{ChangeVerdict, ComparedCell, Failure, GateReport, gate_report::counted};

/// Maximum length of a name, in characters.
const NAME: usize = 500;
/// Maximum length of a line of details, in characters.
const LINE: usize = 2000;

/// Renders a test suite per suite and a test case per cell. A failing case lists its regressions. A case with inconclusive comparisons is
/// skipped, or an error if the gate is strict. The output of a case contains the details. Durations are omitted, because the gate does not
/// measure any.
pub fn junit(gated: &GateReport) -> String {
    let mut suites: BTreeMap<&str, Vec<Case<'_>>> = BTreeMap::new();
    for (index, cell) in gated.comparison.cells.iter().enumerate() {
        suites
            .entry(&cell.suite)
            .or_default()
            .push(Case::of(gated, index, cell));
    }
    let all: Vec<&Case<'_>> = suites.values().flatten().collect();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"mantissa gate\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
        all.len(),
        count(&all, "failure"),
        count(&all, "error"),
    );
    for (name, cases) in &suites {
        out += &suite(gated, name, cases);
    }
    out + "</testsuites>\n"
}

fn suite(gated: &GateReport, name: &str, cases: &[Case<'_>]) -> String {
    let cases: Vec<&Case<'_>> = cases.iter().collect();
    let (before, after) = (&gated.comparison.baseline, &gated.comparison.candidate);
    let properties = [
        ("baseline", Some(&before.name)),
        ("baseline-revision", before.revision.as_ref()),
        ("candidate", Some(&after.name)),
        ("candidate-revision", after.revision.as_ref()),
        ("machine", Some(&after.machine)),
    ];
    let mut out = format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" timestamp=\"{}\">\n    <properties>\n",
        attribute(name),
        cases.len(),
        count(&cases, "failure"),
        count(&cases, "error"),
        count(&cases, "skipped"),
        attribute(&after.started),
    );
    for (name, value) in properties
        .iter()
        .filter_map(|(name, value)| Some((name, (*value)?)))
    {
        out += &format!(
            "      <property name=\"{name}\" value=\"{}\"/>\n",
            attribute(value)
        );
    }
    out += "    </properties>\n";
    for case in cases {
        out += &case.xml();
    }
    out + "  </testsuite>\n"
}

/// Counts the cases with this result.
fn count(cases: &[&Case<'_>], result: &str) -> usize {
    let results = cases.iter().filter_map(|case| case.result.as_ref());
    results.filter(|(element, ..)| *element == result).count()
}

/// A cell as a test case.
struct Case<'a> {
    cell: &'a ComparedCell,
    /// Element, type and message of the result; `None` if the case passes.
    result: Option<(&'static str, String, String)>,
    /// Lines of the output of the case.
    details: Vec<String>,
}

impl<'a> Case<'a> {
    fn of(gated: &GateReport, index: usize, cell: &'a ComparedCell) -> Self {
        let failing: Vec<&Failure> = gated.failing().filter(|failure| failure.cell == index).collect();
        let result = match failing.as_slice() {
            [] => inconclusive(gated, cell),
            failing => Some(failed(gated, failing)),
        };
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
        Self {
            cell,
            result,
            details: found.chain(measured).chain(allowed).chain(rerun).collect(),
        }
    }

    fn xml(&self) -> String {
        let mut out = format!(
            "    <testcase classname=\"{}\" name=\"{}\">\n",
            attribute(&format!("{}.{}", self.cell.suite, self.cell.workload)),
            attribute(&format!(
                "{} [{}]",
                cut(&self.cell.setting, NAME - 20),
                self.cell.id
            )),
        );
        if let Some((element, kind, text)) = &self.result {
            out += &format!(
                "      <{element} type=\"{}\" message=\"{}\"/>\n",
                attribute(kind),
                escape(&short(text, LINE))
            );
        }
        if !self.details.is_empty() {
            let lines: Vec<String> = self
                .details
                .iter()
                .map(|line| escape(&short(line, LINE)))
                .collect();
            out += &format!("      <system-out>{}</system-out>\n", lines.join("\n"));
        }
        out + "    </testcase>\n"
    }
}

/// Joins all regressions of a case in one failure, because JUnit readers accept only one per case.
fn failed(gated: &GateReport, failing: &[&Failure]) -> (&'static str, String, String) {
    let kind = |failure: &&Failure| failure.metric.map_or("finding", MetricName::name);
    let kinds: Vec<&str> = failing.iter().map(kind).collect();
    let text = |failure: &&Failure| {
        let change = gated.change(failure);
        change.map_or_else(|| failure.text.clone(), ChangeText::sentence)
    };
    let texts: Vec<String> = failing.iter().map(text).collect();
    ("failure", kinds.join(", "), texts.join("; "))
}

/// Returns the result of a case without regressions; `None` if all comparisons have a verdict.
fn inconclusive(gated: &GateReport, cell: &ComparedCell) -> Option<(&'static str, String, String)> {
    let is_inconclusive = |outcome: &ChangeVerdict| *outcome == ChangeVerdict::Inconclusive;
    let found = cell.findings.iter().map(|finding| finding.verdict);
    let undecided = found
        .chain(cell.changes.iter().map(|change| change.verdict))
        .filter(is_inconclusive)
        .count();
    let all = cell.findings.len() + cell.changes.len();
    let text = match undecided {
        0 if all == 0 => "the cell has no comparisons".to_owned(),
        0 => return None,
        _ => format!("{undecided} of {} inconclusive", counted(all, "change")),
    };
    let element = if gated.strict && undecided > 0 {
        "error"
    } else {
        "skipped"
    };
    Some((element, "undecided".to_owned(), text))
}

fn attribute(text: &str) -> String {
    escape(&short(text, NAME))
}

/// Escapes text for XML. Characters that XML 1.0 does not allow become `�`.
fn escape(text: &str) -> String {
    plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_replaced_and_marks_are_escaped() {
        assert_eq!(
            escape("<a b=\"'&'\">\0\u{b}\u{ffff}🦀"),
            "&lt;a b=&quot;&apos;&amp;&apos;&quot;&gt;���🦀"
        );
        assert_eq!(escape("]]>\n"), "]]&gt; ");
    }
}
