//! Protocol between the runner and a worker: a JSON document on standard input, JSON lines on standard output.

use std::{collections::BTreeMap, path::PathBuf};

use mantissa_core::{
    Cell, CheckedCandidate, CheckedOperation, DataSource, Event, Executed, Metric, MetricName, Phase, Status,
};
use mantissa_inputs::Inputs;
use serde::{Deserialize, Serialize};

use crate::failure_hint::with_hint;

/// Request to a worker process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Cell to run.
    pub cell: Cell,
    /// Paths of data, weights and vocabulary.
    pub inputs: Inputs,
    /// Command of the peer that computes with another framework; empty: burn computes.
    #[serde(default)]
    pub peer: Vec<String>,
    /// Folder for the raw samples, created by the worker.
    pub samples: PathBuf,
    /// True if the trained weights of a training cell are saved next to the raw samples. Older workers do not know this field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub save_weights: bool,
    /// UUID of the GPU to sample, from NVML.
    pub gpu: Option<String>,
    /// UUID of the only GPU that a rank may use. Other workers use the first GPU. Older workers do not know this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_gpu: Option<String>,
    /// Idle power of the GPU in watts, or the reason why it is not known.
    pub idle_watts: Result<f64, String>,
    /// Task of the worker.
    #[serde(default)]
    pub job: Job,
}

/// Task of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Measures the cell.
    #[default]
    Measure,
    /// Compiles the kernels of the cell.
    Compile,
    /// Checks a candidate kernel against float64.
    Check {
        /// Operation of the kernel.
        operation: CheckedOperation,
        /// Name of the candidate.
        candidate: String,
        /// Compiles the kernels without running them.
        compile_only: bool,
    },
}

/// First line of a rank, which it sends to the socket of the runner. The runner then sends the [`Request`].
#[cfg(unix)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Number of the rank.
    pub rank: usize,
}

/// Message of a worker, one line of its standard output or, from a rank, of its socket. Lines that are not messages are output of
/// libraries.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Progress, several times a second.
    Progress(Advance),
    /// All events up to now, sent at each new event, so that they survive a crash of the worker.
    Happened(Vec<Event>),
    /// Final message: the cell finished, or failed in a way that the worker could report.
    Finished(Box<Finished>),
    /// Final message: data or weights are invalid.
    Refused(String),
}

/// Progress of a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Advance {
    /// Current phase.
    pub phase: Phase,
    /// Completed steps of this phase.
    pub done: u64,
    /// Total steps of this phase.
    pub total: u64,
    /// Peak memory up to now.
    pub memory: MemorySoFar,
}

/// Peak memory of a worker up to now, in bytes. Values that were not reported are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySoFar {
    /// Host memory.
    pub host: Option<u64>,
    /// Device memory of all processes.
    pub device: Option<u64>,
    /// Device memory of the worker.
    pub process: Option<u64>,
    /// Memory reserved by the device allocator.
    pub reserved: Option<u64>,
    /// Memory of tensors in the device allocator.
    pub in_use: Option<u64>,
}

impl MemorySoFar {
    /// Replaces the values that `newer` contains.
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

    /// Returns the values as metrics.
    pub(crate) fn metrics(self) -> BTreeMap<MetricName, Metric> {
        let all = [
            (MetricName::HostPeakBytes, self.host),
            (MetricName::DevicePeakBytes, self.device),
            (MetricName::ProcessPeakBytes, self.process),
            (MetricName::AllocatorReservedPeakBytes, self.reserved),
            (MetricName::AllocatorInUsePeakBytes, self.in_use),
        ];
        let method = "highest observed value before memory ran out";
        let known = all.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
        known
            .map(|(name, bytes)| (name, Metric::reading(name, bytes as f64, method)))
            .collect()
    }
}

/// Result of a worker that ran to the end of its cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// Status of the cell.
    pub status: Status,
    /// Reason for a status other than `ok`.
    pub reason: Option<String>,
    /// Observed precision.
    pub executed: Executed,
    /// Metrics of the cell.
    pub metrics: BTreeMap<MetricName, Metric>,
    /// Events that occurred.
    pub events: Vec<Event>,
    /// Source of the data.
    pub data: Option<DataSource>,
    /// Result of the kernel check, if one was requested.
    #[serde(default)]
    pub checked: Option<CheckedCandidate>,
}

impl Finished {
    /// Creates a result without measurements. The reason is reduced to one line, with a hint for known failures.
    pub fn without_result(status: Status, reason: &str) -> Self {
        Self {
            status,
            reason: Some(with_hint(status, reason)),
            executed: Executed::unverified(),
            metrics: BTreeMap::new(),
            events: vec![],
            data: None,
            checked: None,
        }
    }

    /// Adds the peak memory if the status is `oom`. The peak is then a result of the cell.
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
    fn oom_results_contain_the_last_known_peaks() {
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
