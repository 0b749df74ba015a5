//! Plain tables for a terminal.

use mantissa_report::{Align, Table};

use super::{
    change_text::{ChangeText, name_in_suite as name},
    escape::{cut, plain},
    summary::{about, doubts, other_findings},
};
use crate::{Change, ChangeVerdict, ComparedCell, GateReport};

/// Minimum width of a column after cutting.
const MIN_WIDTH: usize = 8;
/// Maximum number of rows in tables that do not list regressions. The other rows are counted.
const MAX_ROWS: usize = 20;

/// Returns tables of regressions, allowed regressions, other findings, inconclusive comparisons with their reasons, and improvements. Omits
/// empty tables. Drawn with one border character and two spaces per column, a table is at most `width` wide, unless its numbers need more.
pub fn terminal_tables(gated: &GateReport, width: usize) -> Vec<Table> {
    let tables = [
        regressions(gated),
        found_worse(gated),
        allowed(gated),
        findings(gated),
        undecided(gated),
        improvements(gated),
    ];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
    tables.map(|table| fitted(table, width)).collect()
}

const NUMBERS: [(&str, Align); 6] = [
    ("cell", Align::Left),
    ("metric", Align::Left),
    ("before", Align::Right),
    ("after", Align::Right),
    ("change", Align::Left),
    ("p", Align::Right),
];

fn regressions(gated: &GateReport) -> Table {
    let rows = gated
        .failing()
        .filter_map(|failure| Some(numbers(gated.cell(failure)?, gated.change(failure)?)));
    table("regressions", &NUMBERS, rows.collect())
}

fn found_worse(gated: &GateReport) -> Table {
    let rows = gated.failing().filter(|failure| gated.change(failure).is_none());
    let rows = rows.filter_map(|failure| Some(vec![name(gated.cell(failure)?), plain(&failure.text)]));
    let head = ["cell", "finding"].map(|title| (title, Align::Left));
    table("other regressions", &head, rows.collect())
}

fn improvements(gated: &GateReport) -> Table {
    let rows = gated.comparison.cells.iter().flat_map(|cell| {
        let better = cell
            .changes
            .iter()
            .filter(|change| change.verdict == ChangeVerdict::Improved);
        better.map(|change| numbers(cell, change))
    });
    limited(table("improvements", &NUMBERS, rows.collect()))
}

fn numbers(cell: &ComparedCell, change: &Change) -> Vec<String> {
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

fn allowed(gated: &GateReport) -> Table {
    let rows = gated.tolerated().filter_map(|allowed| {
        let cell = name(gated.cell(&allowed.failure)?);
        Some(vec![
            cell,
            plain(&allowed.failure.text),
            allowed.until.to_string(),
            plain(&allowed.reason),
        ])
    });
    let head = ["cell", "finding", "until", "reason"].map(|title| (title, Align::Left));
    table("allowed regressions", &head, rows.collect())
}

fn findings(gated: &GateReport) -> Table {
    let rows = other_findings(gated).map(|(cell, finding)| {
        vec![
            name(cell),
            about(finding.kind).to_owned(),
            finding.verdict.name().to_owned(),
            plain(&finding.text),
        ]
    });
    let head = ["cell", "kind", "verdict", "finding"].map(|title| (title, Align::Left));
    limited(table("other findings", &head, rows.collect()))
}

fn undecided(gated: &GateReport) -> Table {
    let rows = doubts(gated).into_iter().map(|group| {
        vec![
            group.changes.to_string(),
            group.cells.to_string(),
            group.detectable_change(),
            plain(group.reason),
        ]
    });
    // `detectable`: relative change at which each of them is detected with a power of 95 %.
    let head = [
        ("changes", Align::Right),
        ("cells", Align::Right),
        ("detectable", Align::Right),
        ("reason", Align::Left),
    ];
    limited(table("inconclusive", &head, rows.collect()))
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
fn limited(mut table: Table) -> Table {
    let all = table.rows.len();
    if all > MAX_ROWS {
        table.rows.truncate(MAX_ROWS);
        table.title += &format!(" (first {MAX_ROWS} of {all})");
    }
    table
}

/// Cuts the widest columns until the lines are no longer than `width`.
fn fitted(mut table: Table, width: usize) -> Table {
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
    // Columns narrower than an equal share of the space keep their width. The others share the remainder.
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
            *text = cut(text, *width);
        }
    }
    table
}
