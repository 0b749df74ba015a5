//! The tidy view of a run: a line for every cell and metric.

use std::collections::BTreeSet;

use mantissa_analysis::Estimate;
use mantissa_core::{Fingerprint, Metric, MetricName, Record, Status};

use crate::{Report, Row, Run};

/// A cell of a run with one of its metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub run: &'a Run,
    pub row: &'a Row<'a>,
    /// The one process that it is about; absent if it is about all those of the cell.
    pub process: Option<&'a Record>,
    /// Absent where the line is about all metrics, and where the cell has none.
    pub metric: Option<MetricName>,
}

/// What is told of a metric.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Told<'a> {
    pub value: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub n: Option<u64>,
    /// How it was made, or why there is no value.
    pub method: &'a str,
}

impl<'a> Line<'a> {
    /// About all processes and all metrics of a cell.
    pub fn of_cell(run: &'a Run, row: &'a Row<'a>) -> Self {
        Self {
            run,
            row,
            process: None,
            metric: None,
        }
    }

    /// The different answers of its process, or of those behind the metrics of its cell, to what was executed and read; nothing
    /// where nothing was.
    pub fn answers<T: PartialEq>(&self, of: impl Fn(&'a Record) -> T) -> Vec<T> {
        let behind = self.row.measured.iter().map(|(record, _)| *record);
        let records = behind.filter(|record| record.status != Status::Skipped);
        match self.process {
            Some(record) => vec![of(record)],
            None => different(records.map(of)),
        }
    }

    /// What its machine says of itself: the different answers of its records, or that of the run if it has none.
    pub fn machines<T: PartialEq>(&self, of: impl Fn(&'a Fingerprint) -> T) -> Vec<T> {
        let records = self.row.records.iter();
        let answers = different(records.map(|record| of(&record.fingerprint)));
        match answers.is_empty() {
            true => vec![of(&self.run.environment.fingerprint)],
            false => answers,
        }
    }

    /// What its process recorded of a metric, else the estimate over the processes of its cell.
    pub fn told(&self, metric: MetricName) -> Option<Told<'a>> {
        if let Some(process) = self.process {
            return process.metrics.get(&metric).map(recorded);
        }
        let mut records = self.row.measured.iter();
        let told = records
            .clone()
            .find_map(|(record, _)| record.metrics.get(&metric));
        let Some(estimate) = self.row.metric(metric) else {
            return told.map(recorded);
        };
        // Of one process, the estimate is what it recorded.
        let mut with_value = records.by_ref().filter_map(|(record, _)| {
            let metric = record.metrics.get(&metric)?;
            metric.value.is_some_and(f64::is_finite).then_some(metric)
        });
        let (first, second) = (with_value.next(), with_value.next());
        let alone = first.filter(|_| second.is_none());
        Some(estimated(
            estimate,
            alone.map_or(estimate.method, |metric| &metric.method),
        ))
    }
}

/// Each answer once, in the order of the records.
fn different<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut answers = Vec::new();
    for answer in all {
        if !answers.contains(&answer) {
            answers.push(answer);
        }
    }
    answers
}

fn recorded(metric: &Metric) -> Told<'_> {
    Told {
        value: metric.value,
        low: metric.low,
        high: metric.high,
        n: metric.n,
        method: &metric.method,
    }
}

fn estimated<'a>(estimate: &Estimate, method: &'a str) -> Told<'a> {
    Told {
        value: Some(estimate.value),
        low: estimate.interval.map(|interval| interval.low),
        high: estimate.interval.map(|interval| interval.high),
        n: Some(estimate.n),
        method,
    }
}

/// A line a cell, in plan order.
pub(super) fn of_cells<'a>(reports: &'a [Report<'a>]) -> Vec<Line<'a>> {
    let lines = reports.iter().flat_map(|report| {
        let rows = report.rows();
        rows.map(|(_, row)| Line::of_cell(report.run, row))
    });
    lines.collect()
}

/// A line for every cell and every metric that its processes recorded, of the `chosen` ones alone if there are any. A cell
/// without them has one line, so that none is missing.
pub(super) fn of_metrics<'a>(reports: &'a [Report<'a>], chosen: &[MetricName]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for line in of_cells(reports) {
        let metrics = metrics_of(line.row, chosen);
        let with = |metric| Line { metric, ..line };
        match metrics.is_empty() {
            true => lines.push(line),
            false => lines.extend(metrics.into_iter().map(Some).map(with)),
        }
    }
    lines
}

/// The metrics that the processes behind a row recorded, with or without a value, in the order of the closed list.
pub(super) fn metrics_of(row: &Row<'_>, chosen: &[MetricName]) -> BTreeSet<MetricName> {
    let recorded = row.measured.iter().flat_map(|(record, _)| record.metrics.keys());
    let wanted = |metric: &MetricName| chosen.is_empty() || chosen.contains(metric);
    recorded.copied().filter(wanted).collect()
}
