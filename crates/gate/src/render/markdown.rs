//! Markdown for pull request comments and job summaries.

use mantissa_report::escape_markdown as escape;

use super::{
    change_text::{self, ChangeText},
    escape::shorten,
    page::{Page, html},
    summary::{finding_kind, inconclusive_groups, other_findings},
};
use crate::{
    Change, ChangeVerdict, ComparedCell, Finding, GateReport, Mismatch, Side, gate_report::pluralize,
};

/// Maximum length of a name in a row, in characters.
const MAX_NAME_CHARS: usize = 160;
/// Maximum length of a sentence, in characters.
const MAX_SENTENCE_CHARS: usize = 400;
/// Maximum number of commands; the others are counted.
const MAX_COMMANDS: usize = 5;

const CHANGE_COLUMNS: [&str; 6] = ["cell", "metric", "before", "after", "change", "p"];
const RIGHT_ALIGNED: [&str; 3] = ["before", "after", "p"];

/// Renders the verdict in one line, then regressions, allowed regressions, other findings, inconclusive comparisons and improvements. Rows
/// that do not fit into a comment are only counted.
pub fn markdown(report: &GateReport) -> String {
    let mut page = Page::new(footer(report));
    let mark = if report.fails() { "❌" } else { "✅" };
    page.paragraph_if_it_fits(&format!(
        "{mark} **{}**",
        escape(&shorten(&report.verdict(), MAX_SENTENCE_CHARS))
    ));
    regressions(&mut page, report);
    tolerated(&mut page, report);
    findings(&mut page, report);
    inconclusive(&mut page, report);
    improvements(&mut page, report);
    page.finish()
}

fn regressions(page: &mut Page, report: &GateReport) {
    let (mut change_rows, mut finding_rows) = (vec![], vec![]);
    for failure in report.failing() {
        let Some(cell) = report.cell(failure) else {
            continue;
        };
        match report.change(failure) {
            Some(change) => change_rows.push(change_row(name(cell), change)),
            None => finding_rows.push(row([name(cell), sentence(&failure.text)])),
        }
    }
    page.table("Regressions", &CHANGE_COLUMNS, &RIGHT_ALIGNED, change_rows);
    page.table("Other regressions", &["cell", "finding"], &[], finding_rows);
    commands(page, report);
}

fn change_row(cell: String, change: &Change) -> String {
    let text = ChangeText::of(change);
    row([
        cell,
        escape(change.metric.name()),
        escape(&text.before),
        escape(&text.after),
        escape(&text.change),
        escape(&text.p),
    ])
}

/// Renders the commands that measure the regressed cells again.
fn commands(page: &mut Page, report: &GateReport) {
    let mut commands: Vec<&str> = vec![];
    for cell in report.failing().filter_map(|failure| report.cell(failure)) {
        if !cell.command.is_empty() && !commands.contains(&&*cell.command) {
            commands.push(&cell.command);
        }
    }
    if commands.is_empty() {
        return;
    }
    let shown: Vec<String> = commands
        .iter()
        .take(MAX_COMMANDS)
        .map(|command| html(&shorten(command, MAX_SENTENCE_CHARS)))
        .collect();
    let more = commands.len().saturating_sub(MAX_COMMANDS);
    let omitted = match more {
        0 => String::new(),
        _ => format!("\n… and {more} more"),
    };
    page.paragraph_if_it_fits(&format!(
        "<details><summary>Commands to rerun</summary>\n\n<pre>{}{omitted}</pre>\n\n</details>",
        shown.join("\n")
    ));
}

fn tolerated(page: &mut Page, report: &GateReport) {
    let rows = report.tolerated().filter_map(|allowed| {
        let cell = report.cell(&allowed.failure)?;
        Some(row([
            name(cell),
            sentence(&allowed.failure.text),
            allowed.until.to_string(),
            sentence(&allowed.reason),
        ]))
    });
    page.table(
        "Allowed regressions",
        &["cell", "finding", "until", "reason"],
        &[],
        rows.collect(),
    );
}

fn findings(page: &mut Page, report: &GateReport) {
    let rows = other_findings(report).filter(|(_, finding)| finding.verdict != ChangeVerdict::Improved);
    let rows = rows.map(|(cell, finding)| finding_row(cell, finding));
    page.table(
        "Other findings",
        &["cell", "kind", "verdict", "finding"],
        &[],
        rows.collect(),
    );
}

fn finding_row(cell: &ComparedCell, finding: &Finding) -> String {
    row([
        name(cell),
        finding_kind(finding.kind).to_owned(),
        finding.verdict.name().to_owned(),
        sentence(&finding.text),
    ])
}

/// Renders the reasons of inconclusive comparisons with their counts, the most frequent first.
fn inconclusive(page: &mut Page, report: &GateReport) {
    let rows = inconclusive_groups(report).into_iter().map(|group| {
        row([
            pluralize(group.changes, "change"),
            pluralize(group.cells, "cell"),
            group.detectable_change(),
            sentence(group.reason),
        ])
    });
    let head = ["changes", "cells", "detectable change", "reason"];
    page.table("Inconclusive", &head, &[], rows.collect());
}

fn improvements(page: &mut Page, report: &GateReport) {
    let cells = report.comparison.cells.iter();
    let rows: Vec<String> = cells
        .flat_map(|cell| {
            let better = cell
                .changes
                .iter()
                .filter(|change| change.verdict == ChangeVerdict::Improved);
            better.map(|change| change_row(name(cell), change))
        })
        .collect();
    let found = other_findings(report).filter(|(_, finding)| finding.verdict == ChangeVerdict::Improved);
    let found: Vec<String> = found.map(|(cell, finding)| finding_row(cell, finding)).collect();
    if rows.is_empty() && found.is_empty() {
        return;
    }
    let count = pluralize(rows.len() + found.len(), "improvement");
    page.paragraph(&format!("<details><summary>{count}</summary>"));
    page.table("", &CHANGE_COLUMNS, &RIGHT_ALIGNED, rows);
    page.table("", &["cell", "kind", "verdict", "finding"], &[], found);
    page.paragraph("</details>");
}

/// Renders a table of the two runs.
fn footer(report: &GateReport) -> String {
    let comparison = &report.comparison;
    let mut out =
        "| | run | started | machine | profile | revision | processes |\n|---|---|---|---|---|---|---:|\n"
            .to_owned();
    out += &side("before", &comparison.baseline);
    out += &side("after", &comparison.candidate);
    if !comparison.mismatches.is_empty() {
        let mismatches: Vec<String> = comparison.mismatches.iter().map(Mismatch::to_string).collect();
        out += &format!("\nAllowed differences: {}.\n", sentence(&mismatches.join("; ")));
    }
    out
}

fn side(which: &str, side: &Side) -> String {
    row([
        which.to_owned(),
        code(&side.name),
        sentence(&side.started),
        sentence(&side.machine),
        side.profile.to_string(),
        side.revision.as_deref().map(code).unwrap_or_default(),
        side.repeats.to_string(),
    ])
}

fn name(cell: &ComparedCell) -> String {
    code(&change_text::name(cell))
}

/// Formats a name as code, so that GitHub does not render it as a mention of a user.
fn code(name: &str) -> String {
    format!("<code>{}</code>", escape(&shorten(name, MAX_NAME_CHARS)))
}

fn sentence(text: &str) -> String {
    escape(&shorten(text, MAX_SENTENCE_CHARS))
}

fn row<const N: usize>(fields: [String; N]) -> String {
    format!("| {} |\n", fields.join(" | "))
}
