//! Tests of comparisons, the gate, histories and their formats on invented runs.

mod formats;
mod gate;
mod history;
mod support;
