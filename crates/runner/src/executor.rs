//! Executor of cells, and the result of an executed cell.

use std::time::Duration;

use mantissa_core::{Event, Status};

use crate::{
    RunError,
    message::{Finished, MemorySoFar, Request},
    progress::ProgressUpdate,
};

/// Result of an executed cell.
#[derive(Debug)]
pub enum CellResult {
    /// The worker sent its final message.
    Finished(Box<Finished>),
    /// The worker ended without a final message.
    Died {
        /// Status of the cell.
        status: Status,
        /// Reason for the status.
        reason: String,
        /// Last known peak memory.
        memory: MemorySoFar,
        /// Events up to the last message.
        events: Vec<Event>,
    },
    /// The worker was killed because the run stops immediately. Nothing is recorded.
    Stopped,
    /// Data or weights are invalid. The run ends, because every other cell would fail as well.
    Refused(String),
}

/// Executor of cells: worker processes, or a script in tests.
pub trait Executor {
    /// Runs one cell. Returns its result, and the output of its worker without messages. Calls `on_progress` with each
    /// progress update, and in between with `None` several times a second.
    ///
    /// # Errors
    /// Errors that prevent every cell from running.
    fn execute(
        &mut self,
        request: &Request,
        timeout: Duration,
        on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError>;
}
