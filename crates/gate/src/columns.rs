//! Typed columns of a history, for data frames.

use mantissa_core::MetricName;
use mantissa_report::{Kind, PlainColumn, ReportError, Value, parquet};

use crate::{Entry, History};

/// Row of the table: a metric of a cell of a run.
struct Line<'a> {
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
        let lines: Vec<Line<'_>> = self.entries().iter().flat_map(lines).collect();
        parquet(&columns(), &lines)
    }
}

fn lines(entry: &Entry) -> Vec<Line<'_>> {
    let line = |metric| Line { entry, metric };
    let medians = entry.medians.iter();
    match entry.medians.is_empty() {
        true => vec![line(None)],
        false => medians
            .map(|(metric, value)| line(Some((*metric, *value))))
            .collect(),
    }
}

fn columns<'l>() -> Vec<PlainColumn<Line<'l>>> {
    vec![
        text("run", |line| line.entry.run.as_str().into()),
        text("started", |line| line.entry.started.as_str().into()),
        text("revision", |line| line.entry.revision.as_deref().into()),
        text("machine", |line| line.entry.machine.as_str().into()),
        text("suite", |line| line.entry.suite.as_str().into()),
        text("workload", |line| line.entry.workload.as_str().into()),
        text("setting", |line| line.entry.setting.as_str().into()),
        text("cell", |line| line.entry.cell.as_str().into()),
        text("gate", |line| line.entry.gate.name().into()),
        PlainColumn {
            name: "processes",
            kind: Kind::Integer,
            say: |line| (line.entry.processes as u64).into(),
        },
        text("metric", |line| {
            line.metric.map(|(metric, _)| metric.name()).into()
        }),
        text("unit", |line| {
            line.metric.map(|(metric, _)| metric.unit().name()).into()
        }),
        PlainColumn {
            name: "value",
            kind: Kind::Number,
            say: |line| Value::from(line.metric.map(|(_, value)| value)),
        },
        text("better", |line| {
            line.metric.map(|(metric, _)| metric.better().name()).into()
        }),
    ]
}

fn text<'l>(name: &'static str, say: for<'a> fn(&'a Line<'l>) -> Value<'a>) -> PlainColumn<Line<'l>> {
    PlainColumn {
        name,
        kind: Kind::Text,
        say,
    }
}
