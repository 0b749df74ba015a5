//! Markdown for pull request comments and job summaries.

use mantissa_report::escape_markdown as escape;

use super::{
    change_text::{self, ChangeText},
    escape::short,
    page::{Page, html},
    summary::{about, doubts, other_findings},
};
use crate::{Change, ChangeVerdict, ComparedCell, Finding, GateReport, Mismatch, Side, gate_report::counted};

/// Maximum length of a name in a row, in characters.
const NAME: usize = 160;
/// Maximum length of a sentence, in characters.
const SENTENCE: usize = 400;
/// Maximum number of commands.
const COMMANDS: usize = 5;

const NUMBERS: [&str; 6] = ["cell", "metric", "before", "after", "change", "p"];
const NUMBERS_RIGHT: [&str; 3] = ["before", "after", "p"];

/// Renders the verdict in one line, then regressions, allowed regressions, other findings, inconclusive comparisons and improvements. Rows
/// that do not fit into a comment are only counted.
pub fn markdown(gated: &GateReport) -> String {
    let mut page = Page::new(foot(gated));
    let mark = if gated.fails() { "❌" } else { "✅" };
    page.line(&format!(
        "{mark} **{}**",
        escape(&short(&gated.verdict(), SENTENCE))
    ));
    regressions(&mut page, gated);
    tolerated(&mut page, gated);
    findings(&mut page, gated);
    undecided(&mut page, gated);
    improvements(&mut page, gated);
    page.finish()
}

fn regressions(page: &mut Page, gated: &GateReport) {
    let (mut measured_rows, mut found_rows) = (vec![], vec![]);
    for failure in gated.failing() {
        let Some(cell) = gated.cell(failure) else { continue };
        match gated.change(failure) {
            Some(change) => measured_rows.push(measured(name(cell), change)),
            None => found_rows.push(row([name(cell), sentence(&failure.text)])),
        }
    }
    page.table("Regressions", &NUMBERS, &NUMBERS_RIGHT, measured_rows);
    page.table("Other regressions", &["cell", "finding"], &[], found_rows);
    commands(page, gated);
}

fn measured(cell: String, change: &Change) -> String {
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

/// Renders the commands that reproduce a regression.
fn commands(page: &mut Page, gated: &GateReport) {
    let mut commands: Vec<&str> = vec![];
    for cell in gated.failing().filter_map(|failure| gated.cell(failure)) {
        if !cell.command.is_empty() && !commands.contains(&&*cell.command) {
            commands.push(&cell.command);
        }
    }
    if commands.is_empty() {
        return;
    }
    let shown: Vec<String> = commands
        .iter()
        .take(COMMANDS)
        .map(|command| html(&short(command, SENTENCE)))
        .collect();
    let more = commands.len().saturating_sub(COMMANDS);
    let omitted = match more {
        0 => String::new(),
        _ => format!("\n… and {more} more"),
    };
    page.line(&format!(
        "<details><summary>Commands to rerun</summary>\n\n<pre>{}{omitted}</pre>\n\n</details>",
        shown.join("\n")
    ));
}

fn tolerated(page: &mut Page, gated: &GateReport) {
    let rows = gated.tolerated().filter_map(|allowed| {
        let cell = gated.cell(&allowed.failure)?;
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

fn findings(page: &mut Page, gated: &GateReport) {
    let rows = other_findings(gated).filter(|(_, finding)| finding.verdict != ChangeVerdict::Improved);
    let rows = rows.map(|(cell, finding)| found_row(cell, finding));
    page.table(
        "Other findings",
        &["cell", "kind", "verdict", "finding"],
        &[],
        rows.collect(),
    );
}

fn found_row(cell: &ComparedCell, finding: &Finding) -> String {
    row([
        name(cell),
        about(finding.kind).to_owned(),
        finding.verdict.name().to_owned(),
        sentence(&finding.text),
    ])
}

/// Renders the reasons of inconclusive comparisons with their counts, the most frequent first.
fn undecided(page: &mut Page, gated: &GateReport) {
    let rows = doubts(gated).into_iter().map(|group| {
        row([
            counted(group.changes, "change"),
            counted(group.cells, "cell"),
            group.detectable_change(),
            sentence(group.reason),
        ])
    });
    let head = ["changes", "cells", "detectable change", "reason"];
    page.table("Inconclusive", &head, &[], rows.collect());
}

fn improvements(page: &mut Page, gated: &GateReport) {
    let cells = gated.comparison.cells.iter();
    let rows: Vec<String> = cells
        .flat_map(|cell| {
            let better = cell
                .changes
                .iter()
                .filter(|change| change.verdict == ChangeVerdict::Improved);
            better.map(|change| measured(name(cell), change))
        })
        .collect();
    let found = other_findings(gated).filter(|(_, finding)| finding.verdict == ChangeVerdict::Improved);
    let found: Vec<String> = found.map(|(cell, finding)| found_row(cell, finding)).collect();
    if rows.is_empty() && found.is_empty() {
        return;
    }
    let count = counted(rows.len() + found.len(), "improvement");
    page.end(&format!("<details><summary>{count}</summary>"));
    page.table("", &NUMBERS, &NUMBERS_RIGHT, rows);
    page.table("", &["cell", "kind", "verdict", "finding"], &[], found);
    page.end("</details>");
}

/// Renders a table of the two runs.
fn foot(gated: &GateReport) -> String {
    let comparison = &gated.comparison;
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

/// Formats a name as code, so that GitHub does not read it as a mention.
fn code(name: &str) -> String {
    format!("<code>{}</code>", escape(&short(name, NAME)))
}

fn sentence(text: &str) -> String {
    escape(&short(text, SENTENCE))
}

fn row<const N: usize>(fields: [String; N]) -> String {
    format!("| {} |\n", fields.join(" | "))
}
