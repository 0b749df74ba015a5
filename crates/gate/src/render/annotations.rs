//! Annotations for GitHub Actions: workflow commands on standard output.

use std::iter;

use super::{
    change_text::{ChangeText, name},
    escape::shorten,
};
use crate::{ChangeVerdict, Failure, FindingKind, GateReport, gate_report::pluralize};

/// Maximum number of errors, and of warnings, that GitHub shows for a step.
const MAX_SHOWN: usize = 10;
/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 200;
/// Maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Renders a gate report as annotations. Each failing regression is an error. Each allowed regression and each changed precision or kernel
/// is a warning. One more annotation counts the inconclusive comparisons: an error if the gate is strict, otherwise a warning. Renders at
/// most ten errors and ten warnings because GitHub shows no more. The last line is a notice with the verdict and the number of omitted
/// annotations.
pub fn annotations(report: &GateReport) -> String {
    let errors: Vec<String> = report
        .failing()
        .map(|failure| command("error", &title(report, failure), &message(report, failure)))
        .chain(
            inconclusive_message(report)
                .filter(|_| report.strict)
                .map(|text| command("error", "inconclusive", &text)),
        )
        .collect();
    let allowed = report.tolerated().map(|allowed| {
        let text = format!(
            "{} (allowed until {}: {})",
            message(report, &allowed.failure),
            allowed.until,
            allowed.reason
        );
        command("warning", &title(report, &allowed.failure), &text)
    });
    let warnings: Vec<String> = allowed
        .chain(changed_findings(report))
        .chain(
            inconclusive_message(report)
                .filter(|_| !report.strict)
                .map(|text| command("warning", "inconclusive", &text)),
        )
        .collect();
    let hidden = |all: &[String]| all.len().saturating_sub(MAX_SHOWN);
    let mut verdict = report.verdict();
    for (count, noun) in [(hidden(&errors), "error"), (hidden(&warnings), "warning")] {
        if count > 0 {
            verdict = format!(
                "{} not shown; {verdict}",
                pluralize(count, &format!("more {noun}"))
            );
        }
    }
    let shown = errors
        .iter()
        .take(MAX_SHOWN)
        .chain(warnings.iter().take(MAX_SHOWN));
    let notice = command("notice", "mantissa gate", &verdict);
    shown.cloned().chain(iter::once(notice)).collect()
}

/// Returns the message about inconclusive comparisons, if there are any.
fn inconclusive_message(report: &GateReport) -> impl Iterator<Item = String> {
    let text = format!(
        "{} inconclusive; `mantissa compare` prints the reasons",
        pluralize(report.inconclusive, "change")
    );
    iter::once(text).filter(|_| report.inconclusive > 0)
}

/// Renders the findings that are neither better nor worse. Omits new cells, which the baseline did not run.
fn changed_findings(report: &GateReport) -> impl Iterator<Item = String> {
    let cells = report.comparison.cells.iter();
    cells.flat_map(|cell| {
        let found = cell
            .findings
            .iter()
            .filter(|finding| finding.verdict == ChangeVerdict::Changed && finding.kind != FindingKind::New);
        found.map(|finding| command("warning", &name(cell), &finding.text))
    })
}

fn title(report: &GateReport, failure: &Failure) -> String {
    let metric = failure
        .metric
        .map(|metric| format!("{metric}: "))
        .unwrap_or_default();
    let cell = report.cell(failure).map(name).unwrap_or_default();
    format!("{metric}{cell}")
}

fn message(report: &GateReport, failure: &Failure) -> String {
    report
        .change(failure)
        .map_or_else(|| failure.text.clone(), ChangeText::sentence)
}

/// Formats a workflow command: `::error title=…::…`.
fn command(level: &str, title: &str, message: &str) -> String {
    format!(
        "::{level} title={}::{}\n",
        escape_property(&shorten(title, MAX_TITLE_CHARS)),
        escape_data(&shorten(message, MAX_MESSAGE_CHARS))
    )
}

/// Escapes the message of a workflow command in the way that GitHub's runner decodes it.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_delimiters_are_escaped() {
        assert_eq!(escape_data("50%\r\n::error::x"), "50%25%0D%0A::error::x");
        assert_eq!(escape_property("a,b::c%3A"), "a%2Cb%3A%3Ac%253A");
        assert_eq!(
            command("error", "a,b\n", "x\n::stop-commands::y"),
            "::error title=a%2Cb ::x ::stop-commands::y\n"
        );
    }
}
