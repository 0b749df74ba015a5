//! Tests of comparisons, the gate, histories and their formats on invented runs.

mod baselines;
mod findings;
mod formats;
mod history;
mod history_file;
mod interleaving;
mod metrics;
mod mismatch;
mod policy;
mod run_measurements;
#[path = "support/six_cells.rs"]
mod six_cells;
mod support;
