//! What the runner and a worker tell each other: one JSON document in, JSON lines out.

use std::{collections::BTreeMap, path::PathBuf};

use mantissa_core::{Cell, DataSource, Event, Executed, Metric, MetricName, Status};
use mantissa_workloads::{Inputs, Phase};
use serde::{Deserialize, Serialize};

/// The work of one worker process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What to run.
    pub cell: Cell,
    /// Where its data lies.
    pub inputs: Inputs,
    /// Folder for the raw samples; made by the worker.
    pub samples: PathBuf,
    /// The GPU to sample, by NVML's UUID.
    pub gpu: Option<String>,
}

/// A line of a worker's standard output. Lines that are none of these come from libraries.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// A sign of life, several times a second.
    Progress(Advance),
    /// The last line: the cell ran to its end, or failed in a way that the worker lived to tell.
    Finished(Box<Finished>),
    /// The last line: the user's data or weights are wrong.
    Refused(String),
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Advance {
    pub(crate) phase: Phase,
    pub(crate) done: u64,
    pub(crate) total: u64,
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
}

impl Finished {
    /// An end without measurements.
    pub fn without_result(status: Status, reason: String) -> Self {
        Self {
            status,
            reason: Some(reason),
            executed: Executed::unverified(),
            metrics: BTreeMap::new(),
            events: vec![],
            data: None,
        }
    }
}
