//! Metadata of a baseline.

use mantissa_core::Profile;
use serde::{Deserialize, Serialize};

/// Content of `baseline.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineInfo {
    /// Version of the record format.
    pub schema: u32,
    /// Name of the baseline, e.g. that of a branch.
    pub name: String,
    /// Name of the folder, which consists of machine, backend and profile.
    pub machine: String,
    /// Profile of the run.
    pub profile: Profile,
    /// Name of the folder of the saved run.
    pub run: String,
    /// Start time of the run (RFC 3339, UTC).
    pub started: String,
    /// Git revision of the program that ran.
    pub revision: Option<String>,
    /// Number of cells.
    pub cells: usize,
    /// Smallest number of processes of any cell that was tried.
    pub repeats: usize,
    /// Total number of processes of all cells. It detects a `records.jsonl` that lost lines.
    pub records: usize,
}

impl BaselineInfo {
    /// Name of the metadata file. A folder that contains it is a baseline; any other is a run.
    pub const FILE: &str = "baseline.json";
}
