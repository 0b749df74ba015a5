//! Progress events of a run, and their observer.

use std::{path::Path, time::Duration};

use mantissa_core::{Cell, Phase, Plan, Record};

/// Observer of the progress of a run, called on the run's thread.
pub trait Progress {
    /// Handles an event.
    fn on_event(&mut self, event: ProgressEvent<'_>);
}

/// Progress event of a run.
#[derive(Debug)]
pub enum ProgressEvent<'a> {
    /// The run starts.
    Started {
        /// Path of the run folder.
        folder: &'a Path,
        /// Plan of the run.
        plan: &'a Plan,
        /// Number of cells and repeats to execute, without skipped cells.
        total: usize,
    },
    /// A step before the first cell.
    Preparing {
        /// Name of the step.
        what: &'static str,
        /// Completed parts.
        done: usize,
        /// Total parts.
        total: usize,
        /// Number of parallel processes.
        processes: usize,
    },
    /// A worker starts.
    Cell {
        /// Cell of the worker.
        cell: &'a Cell,
        /// Number of the repeat, from 0.
        repeat: u32,
        /// Number of completed cells.
        done: usize,
        /// Estimated remaining time, once it can be estimated.
        left: Option<Duration>,
    },
    /// The run waits before a cell, for this reason.
    Waiting(&'a str),
    /// A worker completed a step.
    Step(ProgressUpdate),
    /// A stop was requested. The run stops after the running cell.
    Stopping,
    /// A record was written.
    Recorded(&'a Record),
    /// All cells are done.
    Ended,
}

/// Progress of the running cell.
#[derive(Debug, Clone, Copy)]
pub struct ProgressUpdate {
    /// Current phase.
    pub phase: Phase,
    /// Completed steps of this phase.
    pub done: u64,
    /// Total steps of this phase.
    pub total: u64,
}
