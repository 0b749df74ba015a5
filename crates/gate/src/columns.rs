//! Typed columns of a history, for export to data frames.

use mantissa_core::MetricName;
use mantissa_report::{Kind, PlainColumn, ReportError, Value, parquet};

use crate::{Entry, History};

/// Row of the table: one metric of one cell in one run.
struct HistoryRow<'a> {
    entry: &'a Entry,
    /// `None` if the cell does not have any metric.
    metric: Option<(MetricName, f64)>,
}

impl History {
    /// Returns the history as Parquet, with a row for every run, cell and metric. A cell without metrics has one row. The output is
    /// deterministic.
    ///
    /// # Errors
    /// Returns the error of the Parquet writer.
    pub fn parquet(&self) -> Result<Vec<u8>, ReportError> {
        let rows: Vec<HistoryRow<'_>> = self.entries().iter().flat_map(rows).collect();
        parquet(&columns(), &rows)
    }
}

fn rows(entry: &Entry) -> Vec<HistoryRow<'_>> {
    let row = |metric| HistoryRow { entry, metric };
    let medians = entry.medians.iter();
    match entry.medians.is_empty() {
        true => vec![row(None)],
        false => medians
            .map(|(metric, value)| row(Some((*metric, *value))))
            .collect(),
    }
}

fn columns<'l>() -> Vec<PlainColumn<HistoryRow<'l>>> {
    vec![
        text("run", |row| row.entry.run.as_str().into()),
        text("started", |row| row.entry.started.as_str().into()),
        text("revision", |row| row.entry.revision.as_deref().into()),
        text("machine", |row| row.entry.machine.as_str().into()),
        text("suite", |row| row.entry.suite.as_str().into()),
        text("workload", |row| row.entry.workload.as_str().into()),
        text("setting", |row| row.entry.setting.as_str().into()),
        text("cell", |row| row.entry.cell.as_str().into()),
        text("gate", |row| row.entry.gate.name().into()),
        PlainColumn {
            name: "processes",
            kind: Kind::Integer,
            value: |row| (row.entry.processes as u64).into(),
        },
        text("metric", |row| row.metric.map(|(metric, _)| metric.name()).into()),
        text("unit", |row| {
            row.metric.map(|(metric, _)| metric.unit().name()).into()
        }),
        PlainColumn {
            name: "value",
            kind: Kind::Number,
            value: |row| Value::from(row.metric.map(|(_, value)| value)),
        },
        text("better", |row| {
            row.metric.map(|(metric, _)| metric.better().name()).into()
        }),
    ]
}

fn text<'l>(
    name: &'static str,
    value: for<'a> fn(&'a HistoryRow<'l>) -> Value<'a>,
) -> PlainColumn<HistoryRow<'l>> {
    PlainColumn {
        name,
        kind: Kind::Text,
        value,
    }
}
