//! Writes `results.csv` with one line per record, without aggregation except for the comparison of its cell with the baseline. Cells without
//! records have one line as well.

use std::{collections::BTreeSet, io};

use mantissa_core::MetricName;

use super::{
    column::{self, Column},
    csv::write_to,
    line::Line,
    value::{Kind, Value},
};
use crate::{Report, ReportError};

/// Returns the results as CSV (RFC 4180, UTF-8). Metrics have their recorded units; an absent value is an empty
/// field. Columns without any value are left out.
pub fn csv(report: &Report<'_>) -> Result<Vec<u8>, ReportError> {
    let mut bytes = Vec::new();
    csv_to(report, &mut bytes)?;
    Ok(bytes)
}

/// Writes the results as CSV to a stream.
pub(crate) fn csv_to(report: &Report<'_>, to: impl io::Write) -> Result<(), ReportError> {
    let mut lines = Vec::new();
    for (_, row) in report.rows() {
        let line = Line::of_cell(report.run, row);
        if row.records.is_empty() {
            lines.push(line);
        }
        lines.extend(row.records.iter().map(|record| Line {
            process: Some(record),
            ..line
        }));
    }
    let mut columns = columns(report);
    let has_value = |column: &Column| {
        lines
            .iter()
            .any(|line| !matches!(column.value(line), Value::Absent))
    };
    columns.retain(|column| lines.is_empty() || has_value(column));
    write_to(to, &columns, &lines)
}

fn columns(report: &Report<'_>) -> Vec<Column> {
    let mut columns = column::run_columns();
    columns.extend(column::names());
    columns.extend(column::axes());
    columns.push(Column::new("repeat", Kind::Integer, |line| {
        line.process.map(|record| record.repeat).into()
    }));
    columns.push(Column::new("attempt", Kind::Integer, |line| {
        line.process.map(|record| record.attempt).into()
    }));
    columns.extend(column::outcome());
    columns.extend(column::comparison());
    columns.extend(column::precision());
    columns.push(column::data());
    let recorded = report.run.records.iter().flat_map(|record| record.metrics.keys());
    for metric in recorded.copied().collect::<BTreeSet<MetricName>>() {
        columns.extend(column::wide_columns(metric));
        columns.push(Column::new(format!("{metric}_n"), Kind::Integer, move |line| {
            line.value(metric).and_then(|value| value.n).into()
        }));
    }
    columns.push(Column::new("command", Kind::Text, |line| {
        line.process.map(|record| record.command.as_str()).into()
    }));
    columns
}
