//! `summary.md`: the report for pull requests and chats.

use std::{fmt::Write as _, iter};

use crate::{
    Banner, Group, Report, Run,
    banner::origin,
    claims,
    figures::shown_of,
    memory_breakdown::{MemoryTable, memory_table},
    setting::SettingResult,
    table::{Align, Column, Field, columns, published_baseline},
    view::Suite,
};

/// Renders the results as GitHub-flavoured Markdown.
pub fn markdown(report: &Report<'_>) -> String {
    let mut out = heading(report);
    banners(&mut out, &report.banners);
    for suite in &report.suites {
        section(&mut out, report.run, suite, report.rows_shown());
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Renders the name of a run with its hardware, software and data.
pub(crate) fn heading(report: &Report<'_>) -> String {
    let mut out = format!("# {}\n\n", escape(&report.run.name));
    paragraph(&mut out, &escape(&origin(report.run)));
    out
}

/// Appends a paragraph and a blank line.
pub(crate) fn paragraph(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\n\n");
}

pub(crate) fn banners(out: &mut String, banners: &[Banner]) {
    for banner in banners {
        paragraph(
            out,
            &format!("> **{}** {}", escape(&banner.title), escape(&banner.text)),
        );
    }
}

fn section(out: &mut String, run: &Run, suite: &Suite<'_>, max_rows: usize) {
    paragraph(out, &format!("## {}", escape(&suite.info.title)));
    paragraph(out, &format!("*{}*", escape(suite.info.question.trim())));
    banners(out, &suite.banners);
    for group in &suite.groups {
        if suite.groups.len() > 1 {
            paragraph(out, &format!("### {}", escape(group.workload)));
        }
        paragraph(out, &escape(&group.answer.join(" ")));
        let shown = group.shown(max_rows);
        if let Some(text) = shown_of(shown.len(), group.comparisons.len()) {
            paragraph(
                out,
                &format!("The table is {text} settings; `results.csv` contains all of them."),
            );
        }
        // If all cells were skipped for the same reason, the answer above already states it.
        if group.common_skip_reason().is_none() {
            table(out, suite, group, &columns(group), &shown);
        }
        paragraph(out, &escape(&group.notes.join(" ")));
        if let Some(table) = memory_table(group, &shown).filter(|table| table.estimated) {
            memory(out, &table);
        }
    }
    claims(out, run, suite);
    for reference in &suite.references {
        paragraph(
            out,
            &format!(
                "Published ({}): {}, on {}. <{}>",
                escape(reference.name),
                escape(&reference.source),
                escape(&reference.hardware),
                reference.url
            ),
        );
        for note in &reference.notes {
            let _ = writeln!(out, "- {}", escape(note));
        }
        out.push('\n');
    }
}

/// Renders the table of a workload, published rows last.
pub(crate) fn table(
    out: &mut String,
    suite: &Suite<'_>,
    group: &Group<'_>,
    columns: &[Column],
    settings: &[SettingResult<'_, '_>],
) {
    let titles = columns.iter().map(|column| match column.title(group) {
        (title, "") => title,
        (title, below) => format!("{title} ({below})"),
    });
    row(out, titles.map(|title| escape(&title)));
    row(
        out,
        columns.iter().map(|column| {
            if column.align() == Align::Right {
                "---:"
            } else {
                "---"
            }
            .to_owned()
        }),
    );
    for measured in settings {
        row(
            out,
            columns
                .iter()
                .map(|column| field_text(&column.field(group, measured))),
        );
    }
    for reference in &suite.references {
        let base = published_baseline(reference);
        for published in &reference.rows {
            let fields = columns
                .iter()
                .map(|column| column.published(group, published, base));
            row(
                out,
                fields.map(|field| match field_text(&field) {
                    empty if empty.is_empty() => empty,
                    text => format!("*{text}*"),
                }),
            );
        }
    }
    out.push('\n');
}

/// Renders the claims of articles with their verdicts.
fn claims(out: &mut String, run: &Run, suite: &Suite<'_>) {
    if suite.claims.is_empty() {
        return;
    }
    paragraph(out, "Claims of the articles, tested here:");
    row(
        out,
        ["claim", "verdict", "tested as"].map(str::to_owned).into_iter(),
    );
    row(out, ["---"; 3].map(str::to_owned).into_iter());
    for verdict in &suite.claims {
        let source = &verdict.claim.source;
        let hardware = source
            .hardware
            .as_ref()
            .map(|hardware| format!(", on {hardware}"));
        let says = format!(
            "{} ({}{} <{}>)",
            escape(&verdict.claim.says),
            escape(&source.title),
            escape(&hardware.unwrap_or_default()),
            address(&source.url),
        );
        let lines = iter::once(&verdict.tested_as)
            .chain(&verdict.evidence)
            .chain(&verdict.remarks);
        let tested: Vec<String> = lines.map(|line| escape(line)).collect();
        let text = match verdict.tests.is_empty() {
            true => escape(&verdict.verdict),
            false => format!(
                "{} ({})",
                escape(&verdict.verdict),
                escape(&verdict.tests.join("; "))
            ),
        };
        row(out, [says, text, tested.join("<br>")].into_iter());
    }
    out.push('\n');
    paragraph(out, &escape(&claims::heading(run)));
}

/// Removes characters that would end the brackets of a link or the field of a table.
fn address(url: &str) -> String {
    url.replace(['<', '>', '|', ' ', '\n', '\r', '\\'], "")
}

/// Renders the memory table.
fn memory(out: &mut String, table: &MemoryTable) {
    paragraph(out, "Memory breakdown, measured and estimated:");
    let titles = iter::once("setting").chain(table.headings.iter().copied());
    row(out, titles.map(escape));
    let alignments = table.headings.iter().map(|_| "---:");
    row(out, iter::once("---").chain(alignments).map(str::to_owned));
    for (label, fields) in &table.lines {
        row(
            out,
            iter::once(escape(label)).chain(fields.iter().map(field_text)),
        );
    }
    out.push('\n');
    paragraph(out, &escape(&table.remarks.join(" ")));
}

pub(crate) fn field_text(field: &Field) -> String {
    match (field.text.as_str(), field.detail.as_str()) {
        (text, "") => escape(text),
        (text, detail) => format!("{} ({})", escape(text), escape(detail)),
    }
}

pub(crate) fn row(out: &mut String, fields: impl Iterator<Item = String>) {
    let fields: Vec<String> = fields.collect();
    let _ = writeln!(out, "| {} |", fields.join(" | "));
}

/// Escapes text for GitHub-flavoured Markdown, so that it cannot create markup, HTML, links, or notifications from `@name` and `#number`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' | '*' | '_' | '[' | ']' | '|' | '`' | '~' | '$' => escaped.extend(['\\', c]),
            '@' | '#' => escaped.extend([c].into_iter().chain("<!-- -->".chars())),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // Start of an address or of an emoji name.
            ':' if chars
                .peek()
                .is_some_and(|next| !next.is_ascii_digit() && *next != ' ') =>
            {
                escaped.push_str("&#58;");
            }
            '\n' | '\r' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_links_and_markup_are_escaped() {
        for (text, escaped) in [
            ("@torvalds fixes #1", "@<!-- -->torvalds fixes #<!-- -->1"),
            ("[x](https://e.org)", "\\[x\\](https&#58;//e.org)"),
            ("a | *b* ~c~ $d$\ne", "a \\| \\*b\\* \\~c\\~ \\$d\\$ e"),
            ("<img src=x> & more: 10:30", "&lt;img src=x&gt; &amp; more: 10:30"),
        ] {
            assert_eq!(escape(text), escaped);
        }
    }
}
