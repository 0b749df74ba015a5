//! Tidy view of a run, with one line per cell and metric.

use std::collections::BTreeSet;

use mantissa_analysis::Estimate;
use mantissa_core::{Fingerprint, Metric, MetricName, Record, Status};

use crate::{Report, Row, Run};

/// A cell of a run with one of its metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub run: &'a Run,
    pub row: &'a Row<'a>,
    /// The process that the line describes; `None` if it describes all processes of the cell.
    pub process: Option<&'a Record>,
    /// The metric of the line; `None` if the line covers all metrics, or if the cell lacks metrics.
    pub metric: Option<MetricName>,
}

/// Values recorded or estimated for a metric.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MetricValue<'a> {
    pub value: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub n: Option<u64>,
    /// Estimation method, or the reason why there is no value.
    pub method: &'a str,
}

impl<'a> Line<'a> {
    /// Creates a line for all processes and all metrics of a cell.
    pub fn of_cell(run: &'a Run, row: &'a Row<'a>) -> Self {
        Self {
            run,
            row,
            process: None,
            metric: None,
        }
    }

    /// Returns the value of a record field for the line's process. If the line describes all processes, returns the distinct values in the
    /// records from which the cell's metrics are computed. Ignores skipped records.
    pub fn record_values<T: PartialEq>(&self, of: impl Fn(&'a Record) -> T) -> Vec<T> {
        let measured = self.row.measured.iter().map(|(record, _)| *record);
        let records = measured.filter(|record| record.status != Status::Skipped);
        match self.process {
            Some(record) => vec![of(record)],
            None => deduplicate(records.map(of)),
        }
    }

    /// Returns the distinct values of a fingerprint field in the cell's records, or the run's value if the cell has no records.
    pub fn fingerprint_values<T: PartialEq>(&self, of: impl Fn(&'a Fingerprint) -> T) -> Vec<T> {
        let records = self.row.records.iter();
        let values = deduplicate(records.map(|record| of(&record.fingerprint)));
        match values.is_empty() {
            true => vec![of(&self.run.environment.fingerprint)],
            false => values,
        }
    }

    /// Returns the values that the line's process recorded for a metric, or else the estimate over the cell's processes.
    pub fn value(&self, metric: MetricName) -> Option<MetricValue<'a>> {
        if let Some(process) = self.process {
            return process.metrics.get(&metric).map(recorded);
        }
        let mut records = self.row.measured.iter();
        let metric_of_any = records
            .clone()
            .find_map(|(record, _)| record.metrics.get(&metric));
        let Some(estimate) = self.row.metric(metric) else {
            return metric_of_any.map(recorded);
        };
        // If only one process has a value, its recorded method describes the estimate.
        let mut with_value = records.by_ref().filter_map(|(record, _)| {
            let metric = record.metrics.get(&metric)?;
            metric.value.is_some_and(f64::is_finite).then_some(metric)
        });
        let (first, second) = (with_value.next(), with_value.next());
        let single = first.filter(|_| second.is_none());
        Some(estimated(
            estimate,
            single.map_or(estimate.method, |metric| &metric.method),
        ))
    }
}

/// Removes duplicates and keeps the order.
fn deduplicate<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in all {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn recorded(metric: &Metric) -> MetricValue<'_> {
    MetricValue {
        value: metric.value,
        low: metric.low,
        high: metric.high,
        n: metric.n,
        method: &metric.method,
    }
}

fn estimated<'a>(estimate: &Estimate, method: &'a str) -> MetricValue<'a> {
    MetricValue {
        value: Some(estimate.value),
        low: estimate.interval.map(|interval| interval.low),
        high: estimate.interval.map(|interval| interval.high),
        n: Some(estimate.n),
        method,
    }
}

/// Returns one line per cell, in plan order.
pub(super) fn of_cells<'a>(reports: &'a [Report<'a>]) -> Vec<Line<'a>> {
    let lines = reports.iter().flat_map(|report| {
        let rows = report.rows();
        rows.map(|(_, row)| Line::of_cell(report.run, row))
    });
    lines.collect()
}

/// Returns one line per cell and recorded metric. If `chosen` is not empty, other metrics are left out. A cell without such metrics has one
/// line without a metric.
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

/// Returns the metrics that the processes of a row recorded, with or without a value, in the order of [`MetricName`].
pub(super) fn metrics_of(row: &Row<'_>, chosen: &[MetricName]) -> BTreeSet<MetricName> {
    let recorded = row.measured.iter().flat_map(|(record, _)| record.metrics.keys());
    let wanted = |metric: &MetricName| chosen.is_empty() || chosen.contains(metric);
    recorded.copied().filter(wanted).collect()
}
