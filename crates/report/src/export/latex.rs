//! LaTeX tables, one per workload, with booktabs rules: values with intervals, reasons below the table, hardware in the caption.

use std::{fmt::Write as _, iter};

use mantissa_analysis::{CONFIDENCE, Interval};
use mantissa_core::MetricName;

use super::tex::escape;
use crate::{
    Group, Report,
    banner::{origin, warnings},
    setting::SettingResult,
    table::{Align, Column, Field, columns_of, published_baseline},
    units,
    view::Suite,
};

/// Renders every workload of the runs as a floating table.
pub(super) fn latex(reports: &[Report<'_>], chosen: &[MetricName]) -> String {
    let mut out = "% Written by `mantissa export`. The preamble needs \\usepackage{booktabs}.\n".to_owned();
    for report in reports {
        for suite in &report.suites {
            for group in &suite.groups {
                out += &table(report, suite, group, &columns_of(group, chosen));
            }
        }
    }
    out
}

fn table(report: &Report<'_>, suite: &Suite<'_>, group: &Group<'_>, columns: &[Column]) -> String {
    let alignments = columns.iter().map(|column| match column.align() {
        Align::Left => 'l',
        Align::Right => 'r',
    });
    let mut remarks = Remarks::default();
    let mut out = format!(
        "\n\\begin{{table}}\n  \\centering\n  \\footnotesize\n  \\caption{{{}}}\n  \\label{{tab:{}}}\n  \\begin{{tabular}}{{{}}}\n",
        escape(&caption(report, suite, group)),
        label(report, suite, group),
        alignments.collect::<String>()
    );
    rule(&mut out, "top");
    let (titles, below): (Vec<_>, Vec<_>) = columns.iter().map(|column| column.title(group)).unzip();
    row(&mut out, titles.iter().map(|title| escape(title)));
    if below.iter().any(|below| !below.is_empty()) {
        row(&mut out, below.iter().map(|below| escape(below)));
    }
    rule(&mut out, "mid");
    for setting in SettingResult::all(group, |_| true) {
        row(
            &mut out,
            columns
                .iter()
                .map(|column| measured_cell(*column, group, &setting, &mut remarks)),
        );
    }
    published(&mut out, suite, group, columns, &mut remarks);
    rule(&mut out, "bottom");
    out += "  \\end{tabular}\n";
    for note in notes(suite, group)
        .iter()
        .map(|note| escape(note))
        .chain(remarks.lines())
    {
        let _ = writeln!(out, "  \\par\\smallskip\\parbox{{\\linewidth}}{{{note}}}");
    }
    out + "\\end{table}\n"
}

fn rule(out: &mut String, which: &str) {
    let _ = writeln!(out, "    \\{which}rule");
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(out, "    {} \\\\", cells.join(" & "));
}

/// Returns the caption: suite, workload and machine.
fn caption(report: &Report<'_>, suite: &Suite<'_>, group: &Group<'_>) -> String {
    let warnings = warnings(report.banners.iter().chain(&suite.banners));
    let about = format!(
        "{}: {}. {}.",
        suite.info.title,
        group.workload,
        origin(report.run)
    );
    format!("{about} {warnings}").trim_end().to_owned()
}

/// Returns the label of the table: run, suite and workload, joined by colons. Labels are unique across tables.
fn label(report: &Report<'_>, suite: &Suite<'_>, group: &Group<'_>) -> String {
    [report.run.name.as_str(), suite.info.name.as_str(), group.workload]
        .map(encode_label)
        .join(":")
}

/// Encodes a name for use in a label. Letters, digits, hyphens and dots are kept; every other byte becomes `+` and its hexadecimal digits.
fn encode_label(name: &str) -> String {
    let mut label = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'-' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => label.push(char::from(byte)),
            _ => {
                let _ = write!(label, "+{byte:02X}");
            }
        }
    }
    label
}

fn measured_cell(
    column: Column,
    group: &Group<'_>,
    setting: &SettingResult<'_, '_>,
    remarks: &mut Remarks,
) -> String {
    let field = column.field(group, setting);
    match column {
        Column::Metric(metric) => with_thin_spaces(&escape(&measured_metric(metric, group, setting, field))),
        Column::Verdict => {
            let noted = if setting.notes().is_empty() {
                ""
            } else {
                SAMPLES_REMARK
            };
            escape(&field.text) + &remarks.marks(&[&setting.remark(), noted])
        }
        Column::Axis(_)
        | Column::SpeedUp
        | Column::AccuracyChange
        | Column::PerplexityChange
        | Column::ScalingEfficiency
        | Column::Executed
        | Column::Processes => plain(&field),
    }
}

/// Formats a value with its interval in brackets and the other details: `1.24 s [1.20, 1.28] (5 processes)`.
fn measured_metric(
    metric: MetricName,
    group: &Group<'_>,
    setting: &SettingResult<'_, '_>,
    field: Field,
) -> String {
    let ends = setting.estimate(metric).and_then(|estimate| {
        let scale = group.scale(metric, estimate.value);
        Some((scale, estimate.interval?))
    });
    let brackets = |(scale, Interval { low, high }): (units::Scale, Interval)| {
        format!(" [{}, {}]", scale.number(low), scale.number(high))
    };
    let below = ends.map(|(scale, interval)| scale.range(interval));
    let details: Vec<&str> = field
        .detail
        .split(SEPARATOR)
        .filter(|part| !part.is_empty() && *part != units::ABSENT && Some(*part) != below.as_deref())
        .collect();
    let details = match details.as_slice() {
        [] => String::new(),
        details => format!(" ({})", details.join("; ")),
    };
    field.text + &ends.map(brackets).unwrap_or_default() + &details
}

/// Separator between the details of a field.
const SEPARATOR: &str = " · ";

/// Remark on rows with notes about their samples. The notes themselves are too long for a table in a paper.
const SAMPLES_REMARK: &str = "The report lists drift, outliers and throttling of its samples.";

fn plain(field: &Field) -> String {
    match (escape(&field.text), field.detail.as_str()) {
        (text, "") => text,
        (text, detail) => format!("{text} ({})", escape(detail)),
    }
}

/// Replaces thousands separators by thin spaces, because commas separate the bounds of intervals.
fn with_thin_spaces(number: &str) -> String {
    let mut out = String::with_capacity(number.len());
    let mut characters = number.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            ',' if characters.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\,"),
            c => out.push(c),
        }
    }
    out
}

/// Appends the rows of published tables in italics.
fn published(
    out: &mut String,
    suite: &Suite<'_>,
    group: &Group<'_>,
    columns: &[Column],
    remarks: &mut Remarks,
) {
    for reference in &suite.references {
        rule(out, "mid");
        let base = published_baseline(reference);
        for published in &reference.rows {
            let cells = columns.iter().map(|column| {
                let field = column.published(group, published, base);
                let text = match column {
                    Column::Verdict => escape(&field.text) + &remarks.marks(&[&field.detail]),
                    _ => plain(&field),
                };
                format!("\\emph{{{text}}}")
            });
            row(out, cells);
        }
    }
}

/// Returns notes on the intervals and on the sources of published numbers.
fn notes(suite: &Suite<'_>, group: &Group<'_>) -> Vec<String> {
    let intervals = format!("In brackets: {:.0} % intervals.", 100.0 * CONFIDENCE);
    let references = suite.references.iter().map(|reference| {
        format!(
            "Published ({}): {}, on {}.",
            reference.name, reference.source, reference.hardware
        )
    });
    iter::once(intervals + " " + &group.notes.join(" "))
        .chain(references)
        .collect()
}

/// Remarks on statuses, each numbered once.
#[derive(Default)]
struct Remarks(Vec<String>);

impl Remarks {
    /// Returns the superscript numbers of the non-empty remarks: `1,2`.
    fn marks(&mut self, remarks: &[&str]) -> String {
        let present = remarks.iter().filter(|remark| !remark.is_empty());
        let numbers: Vec<String> = present.map(|remark| self.number(remark).to_string()).collect();
        match numbers.is_empty() {
            true => String::new(),
            false => format!("\\textsuperscript{{{}}}", numbers.join(",")),
        }
    }

    fn number(&mut self, remark: &str) -> usize {
        let known = self.0.iter().position(|known| known == remark);
        let index = known.unwrap_or_else(|| {
            self.0.push(remark.to_owned());
            self.0.len() - 1
        });
        index + 1
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let numbered = self.0.iter().enumerate();
        numbered.map(|(index, remark)| format!("\\textsuperscript{{{}}} {}", index + 1, escape(remark)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_by_thin_spaces_and_intervals_by_commas() {
        assert_eq!(
            with_thin_spaces("12,345 {[}12,300, 12,400]"),
            "12\\,345 {[}12\\,300, 12\\,400]"
        );
    }

    #[test]
    fn different_names_have_different_labels() {
        assert_eq!(encode_label("2026-01-02T03.b"), "2026-01-02T03.b");
        assert_eq!(encode_label("a_b c:+ü}"), "a+5Fb+20c+3A+2B+C3+BC+7D");
    }

    #[test]
    fn equal_remarks_share_one_number() {
        let mut remarks = Remarks::default();
        let marks = [&["a", "b"][..], &["", "a"], &[""]].map(|given| remarks.marks(given));
        assert_eq!(marks, ["\\textsuperscript{1,2}", "\\textsuperscript{1}", ""]);
        let lines: Vec<String> = remarks.lines().collect();
        assert_eq!(lines, ["\\textsuperscript{1} a", "\\textsuperscript{2} b"]);
    }
}
