//! Plain tables for a terminal.

use mantissa_report::{Align, Table};

use super::{
    change_text::{ChangeText, name_in_suite as name},
    escape::{sanitize, truncate},
    summary::{finding_kind, inconclusive_groups, other_findings},
};
use crate::{Change, ChangeVerdict, ComparedCell, GateReport};

/// Minimum width of a truncated column, in characters.
const MIN_WIDTH: usize = 8;
/// Maximum number of rows in tables that do not list regressions. The other rows are counted.
const MAX_ROWS: usize = 20;

/// Returns tables of regressions, allowed regressions, other findings, inconclusive comparisons with their reasons, and improvements. Omits
/// empty tables. A table is at most `width` characters wide, including borders, unless its right-aligned columns need more.
pub fn terminal_tables(report: &GateReport, width: usize) -> Vec<Table> {
    let tables = [
        regressions(report),
        regressed_findings(report),
        allowed(report),
        findings(report),
        inconclusive(report),
        improvements(report),
    ];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
    tables.map(|table| fit_to_width(table, width)).collect()
}

const CHANGE_COLUMNS: [(&str, Align); 6] = [
    ("cell", Align::Left),
    ("metric", Align::Left),
    ("before", Align::Right),
    ("after", Align::Right),
    ("change", Align::Left),
    ("p", Align::Right),
];

fn regressions(report: &GateReport) -> Table {
    let rows = report
        .failing()
        .filter_map(|failure| Some(change_row(report.cell(failure)?, report.change(failure)?)));
    table("regressions", &CHANGE_COLUMNS, rows.collect())
}

fn regressed_findings(report: &GateReport) -> Table {
    let rows = report
        .failing()
        .filter(|failure| report.change(failure).is_none());
    let rows = rows.filter_map(|failure| Some(vec![name(report.cell(failure)?), sanitize(&failure.text)]));
    let head = ["cell", "finding"].map(|title| (title, Align::Left));
    table("other regressions", &head, rows.collect())
}

fn improvements(report: &GateReport) -> Table {
    let rows = report.comparison.cells.iter().flat_map(|cell| {
        let better = cell
            .changes
            .iter()
            .filter(|change| change.verdict == ChangeVerdict::Improved);
        better.map(|change| change_row(cell, change))
    });
    limit_rows(table("improvements", &CHANGE_COLUMNS, rows.collect()))
}

fn change_row(cell: &ComparedCell, change: &Change) -> Vec<String> {
    let text = ChangeText::of(change);
    vec![
        name(cell),
        change.metric.to_string(),
        text.before,
        text.after,
        text.change,
        text.p,
    ]
}

fn allowed(report: &GateReport) -> Table {
    let rows = report.tolerated().filter_map(|allowed| {
        let cell = name(report.cell(&allowed.failure)?);
        Some(vec![
            cell,
            sanitize(&allowed.failure.text),
            allowed.until.to_string(),
            sanitize(&allowed.reason),
        ])
    });
    let head = ["cell", "finding", "until", "reason"].map(|title| (title, Align::Left));
    table("allowed regressions", &head, rows.collect())
}

fn findings(report: &GateReport) -> Table {
    let rows = other_findings(report).map(|(cell, finding)| {
        vec![
            name(cell),
            finding_kind(finding.kind).to_owned(),
            finding.verdict.name().to_owned(),
            sanitize(&finding.text),
        ]
    });
    let head = ["cell", "kind", "verdict", "finding"].map(|title| (title, Align::Left));
    limit_rows(table("other findings", &head, rows.collect()))
}

fn inconclusive(report: &GateReport) -> Table {
    let rows = inconclusive_groups(report).into_iter().map(|group| {
        vec![
            group.changes.to_string(),
            group.cells.to_string(),
            group.detectable_change(),
            sanitize(group.reason),
        ]
    });
    // `detectable`: relative change that is detected in each comparison with a power of 95 %.
    let head = [
        ("changes", Align::Right),
        ("cells", Align::Right),
        ("detectable", Align::Right),
        ("reason", Align::Left),
    ];
    limit_rows(table("inconclusive", &head, rows.collect()))
}

fn table(title: &str, head: &[(&str, Align)], rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        header: head
            .iter()
            .map(|(title, align)| ((*title).to_owned(), *align))
            .collect(),
        rows,
    }
}

/// Truncates the rows and adds their total number to the title.
fn limit_rows(mut table: Table) -> Table {
    let all = table.rows.len();
    if all > MAX_ROWS {
        table.rows.truncate(MAX_ROWS);
        table.title += &format!(" (first {MAX_ROWS} of {all})");
    }
    table
}

/// Truncates the widest left-aligned columns until the table fits into `width` characters.
fn fit_to_width(mut table: Table, width: usize) -> Table {
    let length = |text: &str| text.chars().count();
    let columns = table.header.len();
    let mut widths: Vec<usize> = (0..columns)
        .map(|column| {
            let texts = table.rows.iter().map(|row| length(&row[column]));
            texts
                .chain([length(&table.header[column].0)])
                .max()
                .unwrap_or_default()
        })
        .collect();
    let room = width.saturating_sub(3 * columns + 1);
    // Columns narrower than an equal share of the space keep their width. The wider columns share the remainder.
    let mut wide: Vec<usize> = (0..columns)
        .filter(|column| table.header[*column].1 == Align::Left)
        .collect();
    wide.sort_by_key(|column| widths[*column]);
    let mut left = room.saturating_sub(
        (0..columns)
            .filter(|column| !wide.contains(column))
            .map(|column| widths[column])
            .sum(),
    );
    for (index, column) in wide.iter().enumerate() {
        let part = (left / (wide.len() - index)).max(MIN_WIDTH);
        widths[*column] = widths[*column].min(part);
        left = left.saturating_sub(widths[*column]);
    }
    for row in &mut table.rows {
        for (text, width) in row.iter_mut().zip(&widths) {
            *text = truncate(text, *width);
        }
    }
    table
}
