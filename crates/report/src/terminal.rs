//! Results as plain tables that fit a terminal.

use std::collections::BTreeSet;

use mantissa_core::{Axis, ExecutedVerdict, MetricName};

use crate::{
    ClaimVerdict, Group, Report, Suite,
    figures::shown_of,
    setting::SettingResult,
    table::{Align, Column, columns},
    units,
};

/// A table of plain strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Titles of the columns with their alignment.
    pub header: Vec<(String, Align)>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
}

/// Maximum width of a table if the width of the terminal is unknown, borders included.
const WIDTH: usize = 110;
/// Width reserved for the verdict. A longer verdict takes the remaining width of the line.
const MIN_VERDICT_WIDTH: usize = 7;
/// Minimum length of a shortened word.
const MIN_WORD_LENGTH: usize = 5;
/// Columns that a narrow terminal omits after those with one value for all settings, in the order of omission.
const OMITTED_FIRST: [Column; 4] = [
    Column::Processes,
    Column::Metric(MetricName::EnergyCounterJoules),
    Column::Metric(MetricName::MaxUlp),
    Column::AccuracyChange,
];

/// Returns the results as tables: one per workload, and one for the claims of each suite that has claims. Tables are at most 110
/// columns wide, with a border of one character and a space on either side of each column.
pub fn terminal_tables(report: &Report<'_>) -> Vec<Table> {
    terminal_tables_within(report, WIDTH)
}

/// Returns the tables of [`terminal_tables`] for a terminal of `width` characters. Columns are omitted and words are shortened until a
/// table fits. The precision, other axes with several values, the metric by which speeds are compared, the executed precision and the
/// verdict are never omitted, so a table may remain wider. Titles list the omitted columns. Numbers are not shortened, and shortened words
/// remain distinct.
pub fn terminal_tables_within(report: &Report<'_>, width: usize) -> Vec<Table> {
    let max_rows = report.rows_shown();
    let mut tables = Vec::new();
    for suite in &report.suites {
        let groups = suite.groups.iter();
        tables.extend(groups.map(|group| table(suite, group, max_rows, width)));
        tables.extend(claims(suite, width));
    }
    tables
}

/// Minimum width of the column of claims.
const MIN_CLAIM_WIDTH: usize = 12;

/// Returns the claims of the articles with their verdicts and tests. The reasons are only in the page.
fn claims(suite: &Suite<'_>, width: usize) -> Option<Table> {
    // Limit the width of test names to leave room for the claim.
    let tests = |claim: &ClaimVerdict<'_>| shorten(&claim.tests.join("; "), width * 3 / 10);
    let widths = suite.claims.iter();
    let verdicts = widths.clone().map(|claim| claim.verdict.chars().count()).max()?;
    let test_width = widths
        .map(|claim| tests(claim).chars().count())
        .max()?
        .max("test".len());
    let room = width
        .saturating_sub(verdicts + test_width + 10)
        .max(MIN_CLAIM_WIDTH);
    let rows = suite.claims.iter().map(|claim| {
        vec![
            shorten(&strip_control(&claim.claim.says), room),
            claim.verdict.clone(),
            tests(claim),
        ]
    });
    Some(Table {
        title: strip_control(&format!(
            "{}: claims of the articles, tested here",
            suite.info.title
        )),
        header: ["claim", "verdict", "test"]
            .map(|title| (title.to_owned(), Align::Left))
            .to_vec(),
        rows: rows.collect(),
    })
}

/// Replaces control characters, which could colour the text, move the cursor or end the line.
pub(crate) fn strip_control(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Shortens a text to at most `room` characters.
pub(crate) fn shorten(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn table(suite: &Suite<'_>, group: &Group<'_>, max_rows: usize, width: usize) -> Table {
    let shown = group.shown(max_rows);
    let mut columns = columns(group);
    columns.retain(|column| match column {
        Column::Axis(axis @ (Axis::Precision | Axis::Matmul)) => group.varies(*axis),
        _ => true,
    });
    // The verdict is the last column because its reason is cut at the end of the line.
    columns.retain(|column| *column != Column::Verdict);
    columns.push(Column::Verdict);
    let (mut header, mut rows) = text(group, &shown, &columns);
    let mut left_out = Vec::new();
    let status = longest(&header, &rows, header.len() - 1).min(MIN_VERDICT_WIDTH);
    while width_without_last(&header, &rows) + status > width {
        let Some(dropped) = column_to_omit(group, &columns, &rows) else {
            break;
        };
        left_out.push(header.remove(dropped).0);
        columns.remove(dropped);
        rows.iter_mut().for_each(|row| drop(row.remove(dropped)));
    }
    narrow(&mut header, &mut rows, width.saturating_sub(status));
    let room = width
        .saturating_sub(width_without_last(&header, &rows))
        .max(status);
    for status in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *status = shorten(status, room);
    }
    let capped = shown_of(shown.len(), group.comparisons.len()).map(|text| format!(", {text}"));
    let omitted = (!left_out.is_empty()).then(|| format!(", omitted columns: {}", left_out.join(", ")));
    Table {
        title: strip_control(&format!(
            "{} ({}{}{})",
            suite.info.title,
            group.workload,
            capped.unwrap_or_default(),
            omitted.unwrap_or_default()
        )),
        header,
        rows,
    }
}

/// Returns the index of the column to omit next: columns with one value for all settings, the columns in [`OMITTED_FIRST`], other metrics
/// with the last one first, then memory, the speed-up and the perplexity. Never omits the precision, other axes with several values, the
/// metric by which speeds are compared, the executed precision and the verdict.
fn column_to_omit(group: &Group<'_>, columns: &[Column], rows: &[Vec<String>]) -> Option<usize> {
    let memory = group.memory.map(Column::Metric);
    let perplexity = Column::Metric(MetricName::Perplexity);
    let last = [memory.unwrap_or(perplexity), Column::SpeedUp, perplexity];
    let place = |candidate: Column| columns.iter().position(|column| *column == candidate);
    let is_constant = |index: &usize| {
        let can_omit = match columns[*index] {
            Column::Axis(axis) => axis != Axis::Precision,
            Column::Metric(metric) => metric != group.speed,
            _ => false,
        };
        can_omit && rows.len() > 1 && rows.iter().all(|row| row[*index] == rows[0][*index])
    };
    let is_other = |column: &Column| {
        matches!(column, Column::Metric(metric) if *metric != group.speed) && !last.contains(column)
    };
    (0..columns.len())
        .find(is_constant)
        .or_else(|| OMITTED_FIRST.into_iter().find_map(place))
        .or_else(|| columns.iter().rposition(is_other))
        .or_else(|| last.into_iter().find_map(place))
}

/// Shortens titles and words, the longest first, until all columns but the last fit. Numbers stay whole, and words stay distinct.
fn narrow(header: &mut [(String, Align)], rows: &mut [Vec<String>], width: usize) {
    while width_without_last(header, rows) > width {
        let columns =
            (0..header.len() - 1).filter_map(|column| Some((shortened_width(header, rows, column)?, column)));
        let Some((length, column)) = columns.max() else {
            break;
        };
        header[column].0 = shorten(&header[column].0, length);
        for row in rows.iter_mut() {
            row[column] = shorten(&row[column], length);
        }
    }
}

/// Returns the width of a column less one character, unless this would cut a number, make two words equal, or fall below
/// [`MIN_WORD_LENGTH`].
fn shortened_width(header: &[(String, Align)], rows: &[Vec<String>], column: usize) -> Option<usize> {
    let room = longest(header, rows, column).checked_sub(1)?;
    let words: BTreeSet<&str> = rows.iter().map(|row| row[column].as_str()).collect();
    let shortened: BTreeSet<String> = words.iter().map(|word| shorten(word, room)).collect();
    let whole = shortened.iter().all(|word| words.contains(word.as_str()));
    let distinct = match header[column].1 {
        Align::Left => shortened.len() == words.len(),
        Align::Right => whole,
    };
    (room >= MIN_WORD_LENGTH && distinct).then_some(room)
}

type TableText = (Vec<(String, Align)>, Vec<Vec<String>>);

fn text(group: &Group<'_>, settings: &[SettingResult<'_, '_>], columns: &[Column]) -> TableText {
    let title = |column: &Column| match column {
        Column::Executed => "executed".to_owned(),
        Column::Metric(metric) if Some(*metric) == group.memory => "memory".to_owned(),
        column => column.title(group).0,
    };
    let header = columns.iter().map(|column| (title(column), column.align()));
    let rows = settings.iter().map(|setting| {
        columns
            .iter()
            .map(|column| strip_control(&field(group, *column, setting)))
            .collect()
    });
    (header.collect(), rows.collect())
}

fn field(group: &Group<'_>, column: Column, setting: &SettingResult<'_, '_>) -> String {
    let field = column.field(group, setting);
    match column {
        Column::Verdict if !setting.remark().is_empty() => format!("{}: {}", field.text, setting.remark()),
        Column::Metric(metric @ MetricName::TestAccuracy) => match setting.estimate(metric) {
            Some(estimate) => units::accuracy(Some(estimate)),
            None => field.text,
        },
        Column::Executed => setting
            .row()
            .verdict()
            .map_or(units::ABSENT, ExecutedVerdict::name)
            .to_owned(),
        _ => field.text,
    }
}

/// Returns the width of a table without the text of its last column.
fn width_without_last(header: &[(String, Align)], rows: &[Vec<String>]) -> usize {
    let columns = 0..header.len() - 1;
    columns.map(|column| longest(header, rows, column)).sum::<usize>() + 3 * header.len() + 1
}

/// Returns the length of the longest text of a column in characters, including its title.
fn longest(header: &[(String, Align)], rows: &[Vec<String>], column: usize) -> usize {
    let length = |text: &str| text.chars().count();
    let texts = rows.iter().map(|row| length(&row[column]));
    texts.chain([length(&header[column].0)]).max().unwrap_or(0)
}
