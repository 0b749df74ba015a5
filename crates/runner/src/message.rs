//! What the runner and a worker tell each other: one JSON document in, JSON lines out.

use std::{collections::BTreeMap, path::PathBuf};

use mantissa_core::{
    Cell, CheckedCandidate, CheckedOperation, DataSource, Event, Executed, Metric, MetricName, Phase, Status,
};
use mantissa_inputs::Inputs;
use serde::{Deserialize, Serialize};

use crate::advice::advised;

/// The work of one worker process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What to run.
    pub cell: Cell,
    /// Where its data lies.
    pub inputs: Inputs,
    /// The command of the program that computes it with another framework; empty: burn computes it.
    #[serde(default)]
    pub peer: Vec<String>,
    /// Folder for the raw samples; made by the worker.
    pub samples: PathBuf,
    /// The GPU to sample, by NVML's UUID.
    pub gpu: Option<String>,
    /// What it draws while nobody computes on it, watts, or why that is not known.
    pub idle_watts: Result<f64, String>,
    /// What to do with the cell.
    #[serde(default)]
    pub job: Job,
}

/// What a worker does with its cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Measures it.
    #[default]
    Measure,
    /// Compiles its kernels.
    Compile,
    /// Checks a candidate kernel against float64.
    Check {
        /// The operation.
        operation: CheckedOperation,
        /// Name of the candidate.
        candidate: String,
        /// Compile its kernels only.
        compile_only: bool,
    },
}

/// A line of a worker's standard output. Lines that are none of these come from libraries.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// A sign of life, several times a second.
    Progress(Advance),
    /// What has happened so far, whenever that is more than before: should the worker not live to tell.
    Happened(Vec<Event>),
    /// The last line: the cell ran to its end, or failed in a way that the worker lived to tell.
    Finished(Box<Finished>),
    /// The last line: the user's data or weights are wrong.
    Refused(String),
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Advance {
    /// What it is doing.
    pub phase: Phase,
    /// Steps done in this phase.
    pub done: u64,
    /// Steps in this phase.
    pub total: u64,
    /// The most memory that was seen.
    pub memory: MemorySoFar,
}

/// The most memory that a worker was seen to have taken, bytes; absent what nobody told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySoFar {
    /// Of the host.
    pub host: Option<u64>,
    /// Of the device, all processes together.
    pub device: Option<u64>,
    /// Of the device, its own.
    pub process: Option<u64>,
    /// What the device allocator had taken.
    pub reserved: Option<u64>,
    /// What of that was handed out to tensors.
    pub in_use: Option<u64>,
}

impl MemorySoFar {
    /// With what is newer, where it is there.
    #[must_use]
    pub fn and(self, newer: Self) -> Self {
        Self {
            host: newer.host.or(self.host),
            device: newer.device.or(self.device),
            process: newer.process.or(self.process),
            reserved: newer.reserved.or(self.reserved),
            in_use: newer.in_use.or(self.in_use),
        }
    }

    /// The metrics that these are.
    pub(crate) fn metrics(self) -> BTreeMap<MetricName, Metric> {
        let all = [
            (MetricName::HostPeakBytes, self.host),
            (MetricName::DevicePeakBytes, self.device),
            (MetricName::ProcessPeakBytes, self.process),
            (MetricName::AllocatorReservedPeakBytes, self.reserved),
            (MetricName::AllocatorInUsePeakBytes, self.in_use),
        ];
        let method = "the most that was seen before memory ran out";
        let known = all.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
        known
            .map(|(name, bytes)| (name, Metric::reading(name, bytes as f64, method)))
            .collect()
    }
}

/// What a worker that lived to the end of its cell has to say.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// How the cell ended.
    pub status: Status,
    /// Why, unless `ok`.
    pub reason: Option<String>,
    /// What was observed of the executed precision.
    pub executed: Executed,
    /// Summaries.
    pub metrics: BTreeMap<MetricName, Metric>,
    /// What happened on the way.
    pub events: Vec<Event>,
    /// Where the data came from.
    pub data: Option<DataSource>,
    /// What was seen of the candidate kernel that was to be checked.
    #[serde(default)]
    pub checked: Option<CheckedCandidate>,
}

impl Finished {
    /// An end without measurements; the reason becomes one line, with advice where there is some.
    pub fn without_result(status: Status, reason: &str) -> Self {
        Self {
            status,
            reason: Some(advised(status, reason)),
            executed: Executed::unverified(),
            metrics: BTreeMap::new(),
            events: vec![],
            data: None,
            checked: None,
        }
    }

    /// With the memory that was taken so far, if that is what ran out: then it is a result.
    #[must_use]
    pub fn after(mut self, memory: MemorySoFar) -> Self {
        if self.status == Status::Oom {
            self.metrics = memory.metrics();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_is_recorded_with_the_most_that_was_seen() {
        let seen = |host, device| MemorySoFar {
            host,
            device,
            ..MemorySoFar::default()
        };
        let memory = seen(Some(5), Some(7)).and(seen(Some(6), None));
        let metrics = |status| Finished::without_result(status, "").after(memory).metrics;
        let values: Vec<_> = metrics(Status::Oom)
            .into_iter()
            .map(|(name, metric)| (name, metric.value))
            .collect();
        assert_eq!(
            values,
            [
                (MetricName::DevicePeakBytes, Some(7.0)),
                (MetricName::HostPeakBytes, Some(6.0))
            ]
        );
        assert!(metrics(Status::Failed).is_empty());
    }
}
