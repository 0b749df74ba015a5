//! Measurements of a cell, by process and metric.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mantissa_analysis::median;
use mantissa_core::{Cell, DataSource, Executed, InputFile, MetricName, Record, Status};

/// Measurements of a cell.
#[derive(Debug, Clone)]
pub struct MeasuredCell {
    /// The cell.
    pub cell: Cell,
    /// Command that measures the cell again.
    pub command: String,
    /// Input files that the cell read; `None` in records of versions before 0.2.
    pub inputs: Option<Vec<InputFile>>,
    /// Source of the data.
    pub data: Option<DataSource>,
    /// Processes of the cell, sorted by number.
    pub processes: Vec<Process>,
}

/// Measurements of a process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Number of the process within its cell, from 0.
    pub repeat: u32,
    /// Number of the attempt at this process, from 0.
    pub(crate) attempt: u32,
    /// Start time of the run that the process belongs to (RFC 3339, UTC).
    pub run_started: Arc<str>,
    /// Status of the process.
    pub status: Status,
    /// Reason for the status, unless it is `ok`.
    pub reason: Option<String>,
    /// Executed precision that was observed in hardware.
    pub executed: Executed,
    /// Value of each metric. Metrics that were not measured are omitted.
    pub values: BTreeMap<MetricName, Reading>,
}

/// Value of a metric in a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The estimate, in the metric's unit.
    pub value: f64,
    /// Number of samples behind the estimate.
    pub n: Option<u64>,
}

impl MeasuredCell {
    /// Returns an identifier of the cell's inputs: the hashes of the input files and of the data, joined by `+`. Returns `None` for a cell
    /// without files and data.
    pub fn input_id(&self) -> Option<String> {
        let files = self.inputs.iter().flatten().map(|file| file.hash.as_str());
        let data = self.data.iter().map(|data| data.hash.as_str());
        let all: Vec<&str> = files.chain(data).collect();
        (!all.is_empty()).then(|| all.join("+"))
    }

    /// Returns true if any process of the cell was started.
    pub fn was_tried(&self) -> bool {
        self.processes
            .iter()
            .any(|process| process.status != Status::Skipped)
    }

    /// Returns the reason for skipping the cell, if it was skipped.
    pub fn skip_reason(&self) -> Option<&str> {
        let process = self.processes.first().filter(|_| !self.was_tried())?;
        process.reason.as_deref()
    }

    /// Returns the processes with status `ok`.
    pub fn completed(&self) -> impl Iterator<Item = &Process> {
        self.processes
            .iter()
            .filter(|process| process.status == Status::Ok)
    }

    /// Returns the values of a metric, one per completed process.
    pub fn values(&self, metric: MetricName) -> Vec<f64> {
        self.completed()
            .filter_map(|process| Some(process.values.get(&metric)?.value))
            .collect()
    }

    /// Returns one value per run (the median over its processes) if at least `min_runs` runs have the metric. Otherwise returns one value
    /// per process. Processes of one run are not independent because they share the state of the machine.
    pub fn independent_values(&self, metric: MetricName, min_runs: usize) -> Vec<f64> {
        let mut runs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for process in self.completed() {
            if let Some(reading) = process.values.get(&metric) {
                runs.entry(&process.run_started).or_default().push(reading.value);
            }
        }
        match runs.len() >= min_runs {
            true => runs
                .into_values()
                .filter_map(|run| Some(median(run)?.value))
                .collect(),
            false => self.values(metric),
        }
    }

    /// Returns the median over the completed processes, for each metric that all completed processes have.
    pub fn medians(&self) -> BTreeMap<MetricName, f64> {
        let completed = self.completed().count();
        let metrics: BTreeSet<MetricName> = self
            .completed()
            .flat_map(|process| process.values.keys().copied())
            .collect();
        let complete_median = |metric| {
            let values = self.values(metric);
            let all = values.len() == completed;
            Some((metric, median(values)?.value)).filter(|_| all)
        };
        metrics.into_iter().filter_map(complete_median).collect()
    }
}

impl Process {
    /// Creates the process from its record, in a run that started at `run_started`.
    pub(crate) fn of(record: Record, run_started: &Arc<str>) -> Self {
        let values = record.metrics.into_iter().filter_map(|(name, metric)| {
            let reading = Reading {
                value: metric.value?,
                n: metric.n,
            };
            Some((name, reading))
        });
        Self {
            repeat: record.repeat,
            attempt: record.attempt,
            run_started: Arc::clone(run_started),
            status: record.status,
            reason: record.reason,
            executed: record.executed,
            values: values.collect(),
        }
    }
}
