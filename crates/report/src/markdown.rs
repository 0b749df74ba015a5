//! `summary.md`: the report for pull requests and chats.

use std::fmt::Write as _;

use mantissa_core::MetricName;

use crate::{
    Banner, Group, Report,
    banner::origin,
    figures::shown_of,
    more_repeats::{MoreRepeats, more_repeats},
    overview::{self, Overview},
    pages::{Layout, PageFiles},
    setting::SettingResult,
    table::{Align, Column, Field, columns, published_baseline},
    units,
    view::Suite,
};

/// Maximum number of settings in all tables together. GitHub rejects comments of more than 65,536 characters.
const MAX_ROWS: usize = 120;
/// Minimum number of settings per table.
const MIN_ROWS: usize = 5;

/// Renders `summary.md` as GitHub-flavoured Markdown: an overview and a short table per suite if the run has several suites, else the table of
/// the suite with all columns.
pub fn markdown(report: &Report<'_>) -> String {
    let files = PageFiles::new(report, Layout::PagePerSuite);
    summary(report, &Overview::new(report), &files)
}

/// Renders [`markdown`] with links to the pages of a report.
pub(crate) fn summary(report: &Report<'_>, overview: &Overview, files: &PageFiles) -> String {
    let mut out = heading(report);
    banners(&mut out, &report.banners);
    if report.suites.len() > 1 {
        overview::markdown(&mut out, overview, files);
    }
    let suites: Vec<&Suite<'_>> = report.suites.iter().collect();
    if let Some(MoreRepeats { text, command, .. }) = more_repeats(report, &suites) {
        let command = match command.as_str() {
            "" => String::new(),
            command => format!(" {}", code_span(command)),
        };
        paragraph(&mut out, &format!("{}{command}", escape(&text)));
    }
    let max_rows = (MAX_ROWS / report.suites.len().max(1)).max(MIN_ROWS);
    for answer in &overview.suites {
        let suite = &report.suites[answer.suite];
        let tabulated = &suite.groups[answer.group];
        match report.suites.len() {
            1 => section(&mut out, suite, tabulated, max_rows),
            _ => short_section(&mut out, suite, tabulated, max_rows),
        }
        let link = files.link(answer.suite);
        let claims = match suite.claims.len() {
            0 => "",
            _ => ", and the tested claims of articles",
        };
        paragraph(&mut out, &format!("[All tables and figures{claims}]({link})"));
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

/// Renders the question, the results of all workloads, and the table of one of them.
fn section(out: &mut String, suite: &Suite<'_>, tabulated: &Group<'_>, max_rows: usize) {
    title(out, suite);
    banners(out, &suite.banners);
    answers(out, suite, usize::MAX);
    // If all cells were skipped for the same reason, the headline above already states it.
    if tabulated.common_skip_reason().is_some() {
        return;
    }
    let shown = tabulated.shown(max_rows);
    if let Some(text) = shown_of(shown.len(), tabulated.comparisons.len()) {
        let text = format!("The table is {text} settings; `results.csv` contains all of them.");
        paragraph(out, &text);
    }
    if suite.groups.len() > 1 {
        paragraph(out, &format!("Table of {}:", escape(tabulated.workload)));
    }
    table(out, suite, tabulated, &columns(tabulated), &shown);
    paragraph(out, &escape(&tabulated.notes.join(" ")));
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
    }
}

/// Renders the title and the question of a suite.
fn title(out: &mut String, suite: &Suite<'_>) {
    paragraph(out, &format!("## {}", escape(&suite.info.title)));
    paragraph(out, &format!("*{}*", escape(suite.info.question.trim())));
}

/// Renders the result of each workload in at most `sentences` sentences.
fn answers(out: &mut String, suite: &Suite<'_>, sentences: usize) {
    for group in &suite.groups {
        let workload = match suite.groups.len() {
            1 => String::new(),
            _ => format!("**{}**: ", escape(group.workload)),
        };
        let shown = &group.answer[..sentences.min(group.answer.len())];
        paragraph(out, &format!("{workload}{}", escape(&shown.join(" "))));
    }
}

/// Renders one of several suites: the question, the first sentence on each workload, and a table of one workload with ratios and verdicts only.
fn short_section(out: &mut String, suite: &Suite<'_>, tabulated: &Group<'_>, max_rows: usize) {
    title(out, suite);
    let titles: Vec<String> = suite.banners.iter().map(|banner| escape(&banner.title)).collect();
    if !titles.is_empty() {
        paragraph(out, &format!("> **{}**", titles.join(" ")));
    }
    answers(out, suite, 1);
    if tabulated.common_skip_reason().is_some() {
        return;
    }
    let shown = tabulated.shown(max_rows);
    let mut notes = Vec::new();
    if suite.groups.len() > 1 {
        notes.push(format!("Table of {}.", escape(tabulated.workload)));
    }
    if let Some(text) = shown_of(shown.len(), tabulated.comparisons.len()) {
        notes.push(format!("The table is {text} settings."));
    }
    if !notes.is_empty() {
        paragraph(out, &notes.join(" "));
    }
    let compares = |column: &Column| match column {
        Column::Axis(_)
        | Column::SpeedUp
        | Column::AccuracyChange
        | Column::PerplexityChange
        | Column::ScalingEfficiency
        | Column::Verdict => true,
        Column::Metric(MetricName::RelativeError | MetricName::Agreement | MetricName::Perplexity) => true,
        Column::Metric(metric) => Some(*metric) == tabulated.memory || units::ENERGY.contains(metric),
        Column::Executed | Column::Processes => false,
    };
    let columns: Vec<Column> = columns(tabulated).into_iter().filter(compares).collect();
    head(out, tabulated, &columns);
    for setting in &shown {
        let fields = columns.iter().map(|column| {
            let field = column.field(tabulated, setting);
            match column {
                Column::Verdict => escape(&field.text),
                _ => field_text(&field),
            }
        });
        row(out, fields);
    }
    out.push('\n');
}

/// Renders the table of a workload, published rows last.
pub(crate) fn table(
    out: &mut String,
    suite: &Suite<'_>,
    group: &Group<'_>,
    columns: &[Column],
    settings: &[SettingResult<'_, '_>],
) {
    head(out, group, columns);
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

/// Renders the titles of the columns and their alignment.
fn head(out: &mut String, group: &Group<'_>, columns: &[Column]) {
    let titles = columns.iter().map(|column| match column.title(group) {
        (title, "") => title,
        (title, below) => format!("{title} ({below})"),
    });
    row(out, titles.map(|title| escape(&title)));
    let align = |column: &Column| match column.align() {
        Align::Right => "---:",
        Align::Left => "---",
    };
    row(out, columns.iter().map(|column| align(column).to_owned()));
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

/// Formats a command as a code span, which only a longer run of backticks than any in the command ends. The command must neither begin nor end
/// with a backtick.
fn code_span(command: &str) -> String {
    let runs = command.split(|c| c != '`');
    let fence = "`".repeat(1 + runs.map(str::len).max().unwrap_or(0));
    format!("{fence}{}{fence}", command.replace(['\n', '\r'], " "))
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
    fn backticks_do_not_end_a_code_span() {
        for (command, span) in [
            ("run --repeats 7", "`run --repeats 7`"),
            ("run 'a`b``c' 7", "```run 'a`b``c' 7```"),
            ("run 'a\n\nb' 7", "`run 'a  b' 7`"),
        ] {
            assert_eq!(code_span(command), span);
        }
    }

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
