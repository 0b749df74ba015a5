//! The results as plain tables that fit a terminal.

use mantissa_core::{Axis, ExecutedVerdict, MetricName};

use crate::{
    Group, Report, Row, Suite,
    figures::shown_of,
    table::{Align, Column, columns},
    units,
};

/// A table of plain strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Column titles and sides.
    pub header: Vec<(String, Align)>,
    /// Rows, as long as the header.
    pub rows: Vec<Vec<String>>,
}

/// Widest line of a terminal table, borders included.
const WIDTH: usize = 110;
/// Room for the longest status.
const LEAST_STATUS: usize = 8;
/// Columns that a terminal can do without, the most dispensable first. What was executed is not among them.
const DISPENSABLE: [Column; 4] = [
    Column::Repeats,
    Column::Metric(MetricName::EnergyCounterJoules),
    Column::Metric(MetricName::MaxUlp),
    Column::Axis(Axis::Seed),
];

/// The results as tables, one a workload and one of the claims of each suite that has any, no wider than 110 columns with a
/// border of one character and a space on either side of each column.
pub fn terminal_tables(report: &Report<'_>) -> Vec<Table> {
    let most = report.rows_shown();
    let mut tables = Vec::new();
    for suite in &report.suites {
        tables.extend(suite.groups.iter().map(|group| table(suite, group, most)));
        tables.extend(claims(suite));
    }
    tables
}

/// What the articles say, and the verdicts; the reasons are in the page.
fn claims(suite: &Suite<'_>) -> Option<Table> {
    let verdicts = suite.claims.iter().map(|claim| claim.verdict.chars().count());
    let room = WIDTH.saturating_sub(verdicts.max()? + 7);
    let rows = suite
        .claims
        .iter()
        .map(|claim| vec![cut(&claim.claim.says, room), claim.verdict.clone()]);
    Some(Table {
        title: format!("{}: what the articles say, tested here", suite.info.title),
        header: ["the sentence", "here"]
            .map(|title| (title.to_owned(), Align::Left))
            .to_vec(),
        rows: rows.collect(),
    })
}

/// A text that is no longer than the room for it.
fn cut(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn table(suite: &Suite<'_>, group: &Group<'_>, most: usize) -> Table {
    let shown = group.shown(most);
    let mut columns = columns(group);
    columns.retain(|column| match column {
        Column::Axis(axis @ (Axis::Precision | Axis::Matmul)) => group.varies(*axis),
        _ => true,
    });
    // Reasons are cut where the line ends, so they stand there.
    columns.retain(|column| *column != Column::Status);
    columns.push(Column::Status);
    let mut dispensable = DISPENSABLE.iter();
    let (mut header, mut rows) = text(group, &shown, &columns);
    while width_without_last(&header, &rows) + LEAST_STATUS > WIDTH {
        let Some(dropped) = dispensable.next() else { break };
        columns.retain(|column| column != dropped);
        (header, rows) = text(group, &shown, &columns);
    }
    let room = WIDTH
        .saturating_sub(width_without_last(&header, &rows))
        .max(LEAST_STATUS);
    for status in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *status = cut(status, room);
    }
    let capped = shown_of(shown.len(), group.rows.len())
        .map(|text| format!(", {text}"))
        .unwrap_or_default();
    Table {
        title: format!("{} ({}{capped})", suite.info.title, group.workload),
        header,
        rows,
    }
}

type Text = (Vec<(String, Align)>, Vec<Vec<String>>);

fn text(group: &Group<'_>, rows: &[&Row<'_>], columns: &[Column]) -> Text {
    let title = |column: &Column| match column {
        Column::Executed => "executed".to_owned(),
        Column::Metric(metric) if Some(*metric) == group.memory => "memory".to_owned(),
        column => column.title(group).0,
    };
    let header = columns.iter().map(|column| (title(column), column.align()));
    let rows = rows
        .iter()
        .map(|row| columns.iter().map(|column| field(group, *column, row)).collect());
    (header.collect(), rows.collect())
}

fn field(group: &Group<'_>, column: Column, row: &Row<'_>) -> String {
    let field = column.field(group, row);
    match column {
        Column::Status if !row.remark().is_empty() => format!("{}: {}", field.text, row.remark()),
        Column::Metric(MetricName::TestAccuracy) => units::accuracy(row.metric(MetricName::TestAccuracy)),
        Column::Executed => row
            .verdict()
            .map_or(units::ABSENT, ExecutedVerdict::name)
            .to_owned(),
        _ => field.text,
    }
}

/// Width of a table but for the text of its last column.
fn width_without_last(header: &[(String, Align)], rows: &[Vec<String>]) -> usize {
    let length = |text: &str| text.chars().count();
    let widest = |column: usize| {
        let texts = rows.iter().map(|row| length(&row[column]));
        texts.chain([length(&header[column].0)]).max().unwrap_or(0)
    };
    (0..header.len() - 1).map(widest).sum::<usize>() + 3 * header.len() + 1
}
