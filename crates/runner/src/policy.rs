//! What a run does between its cells, and when one comes to a bad end.

use serde::{Deserialize, Serialize};

use crate::Order;

/// Longest rest of a GPU between two cells unless the user says otherwise, seconds: a die loses most of its heat in the
/// first few, the rest goes at the pace of the heat sink, which a sweep cannot wait for.
pub const COOL_DOWN_SECONDS: f64 = 10.0;

/// The part of [`crate::RunSettings`] that says how a run goes on from cell to cell. A run that was recorded without
/// it has the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Which cell comes next.
    pub order: Order,
    /// Longest rest of a GPU before a cell, seconds; with 0 nothing is waited for, not even for the power of the idle GPU.
    pub cool_down_seconds: f64,
    /// What somebody else on the GPU means.
    pub busy: Busy,
    /// How often a cell that `failed` or ended in `timeout` is tried again at once.
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

/// What to do when another process computes on the GPU before a cell or while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Busy {
    /// Say so in the record.
    #[default]
    Warn,
    /// Wait until it is gone, and end the run if that takes too long. A cell that it disturbed has failed and runs once more.
    Wait,
    /// End the run. A cell that it disturbed has failed.
    Fail,
}
