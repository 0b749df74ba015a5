//! Policy of a run between its cells and after failures.

use serde::{Deserialize, Serialize};

use crate::Order;

/// Default time limit in seconds for the cooldown of a GPU between two cells. The chip loses most of its heat in the first
/// few seconds. Waiting for the heat sink, which cools down much more slowly, would take too long.
pub const COOL_DOWN_SECONDS: f64 = 10.0;

/// Policy of a run, part of [`crate::RunSettings`]. A run that was recorded without a policy has the default one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Execution order of the cells.
    pub order: Order,
    /// Time limit in seconds for the cooldown before a cell. With 0, there is no wait and the idle power is not
    /// measured.
    pub cool_down_seconds: f64,
    /// Handling of other processes on the GPU.
    pub busy: Busy,
    /// Number of immediate retries of a cell with status `failed` or `timeout`.
    pub retries: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: Order::default(),
            cool_down_seconds: COOL_DOWN_SECONDS,
            busy: Busy::default(),
            retries: 0,
        }
    }
}

/// Handling of other processes that compute on the GPU before or during a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Busy {
    /// Adds a warning to the record.
    #[default]
    Warn,
    /// Waits until the GPU is free, and ends the run if that takes too long. A cell during which another
    /// process computed is recorded as failed and runs once more.
    Wait,
    /// Ends the run. A cell during which another process computed is recorded as failed.
    Fail,
}
