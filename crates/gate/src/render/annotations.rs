//! Annotations for GitHub Actions: workflow commands on standard output.

use std::iter;

use super::{
    change_text::{ChangeText, name},
    escape::short,
};
use crate::{ChangeVerdict, Failure, FindingKind, GateReport, gate_report::counted};

/// Maximum number of errors, and of warnings, that GitHub shows for a step.
const MAX_SHOWN: usize = 10;
/// Maximum length of a title, in characters.
const TITLE: usize = 200;
/// Maximum length of a message, in characters.
const MESSAGE: usize = 1000;

/// Renders a gate report as annotations. Each failing regression is an error. Each allowed regression and each changed precision or kernel is
/// a warning. One more annotation counts the inconclusive comparisons; it is an error if the gate is strict, otherwise a warning. GitHub shows
/// at most ten errors and ten warnings, so no more are rendered. The last line is a notice with the verdict and the number of omitted
/// annotations.
pub fn annotations(gated: &GateReport) -> String {
    let errors: Vec<String> = gated
        .failing()
        .map(|failure| command("error", &title(gated, failure), &message(gated, failure)))
        .chain(
            undecided(gated)
                .filter(|_| gated.strict)
                .map(|text| command("error", "inconclusive", &text)),
        )
        .collect();
    let allowed = gated.tolerated().map(|allowed| {
        let text = format!(
            "{} (allowed until {}: {})",
            message(gated, &allowed.failure),
            allowed.until,
            allowed.reason
        );
        command("warning", &title(gated, &allowed.failure), &text)
    });
    let warnings: Vec<String> = allowed
        .chain(changed(gated))
        .chain(
            undecided(gated)
                .filter(|_| !gated.strict)
                .map(|text| command("warning", "inconclusive", &text)),
        )
        .collect();
    let hidden = |all: &[String]| all.len().saturating_sub(MAX_SHOWN);
    let mut verdict = gated.verdict();
    for (count, noun) in [(hidden(&errors), "error"), (hidden(&warnings), "warning")] {
        if count > 0 {
            verdict = format!("{} not shown; {verdict}", counted(count, &format!("more {noun}")));
        }
    }
    let shown = errors
        .iter()
        .take(MAX_SHOWN)
        .chain(warnings.iter().take(MAX_SHOWN));
    let notice = command("notice", "mantissa gate", &verdict);
    shown.cloned().chain(iter::once(notice)).collect()
}

fn undecided(gated: &GateReport) -> impl Iterator<Item = String> {
    let text = format!(
        "{} inconclusive; `mantissa compare` prints the reasons",
        counted(gated.undecided, "change")
    );
    iter::once(text).filter(|_| gated.undecided > 0)
}

/// Renders findings that are neither better nor worse.
fn changed(gated: &GateReport) -> impl Iterator<Item = String> {
    let cells = gated.comparison.cells.iter();
    cells.flat_map(|cell| {
        let found = cell
            .findings
            .iter()
            .filter(|finding| finding.verdict == ChangeVerdict::Changed && finding.kind != FindingKind::New);
        found.map(|finding| command("warning", &name(cell), &finding.text))
    })
}

fn title(gated: &GateReport, failure: &Failure) -> String {
    let metric = failure
        .metric
        .map(|metric| format!("{metric}: "))
        .unwrap_or_default();
    let cell = gated.cell(failure).map(name).unwrap_or_default();
    format!("{metric}{cell}")
}

fn message(gated: &GateReport, failure: &Failure) -> String {
    gated
        .change(failure)
        .map_or_else(|| failure.text.clone(), ChangeText::sentence)
}

/// Formats a workflow command: `::error title=…::…`.
fn command(level: &str, title: &str, message: &str) -> String {
    format!(
        "::{level} title={}::{}\n",
        property(&short(title, TITLE)),
        data(&short(message, MESSAGE))
    )
}

/// Escapes characters that end a message, in the encoding that the runner decodes.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes characters that end a message or a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_command_is_escaped() {
        assert_eq!(data("50%\r\n::error::x"), "50%25%0D%0A::error::x");
        assert_eq!(property("a,b::c%3A"), "a%2Cb%3A%3Ac%253A");
        assert_eq!(
            command("error", "a,b\n", "x\n::stop-commands::y"),
            "::error title=a%2Cb ::x ::stop-commands::y\n"
        );
    }
}
