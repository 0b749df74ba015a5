//! Worker process: computes one cell with burn, samples memory and power meanwhile, and summarizes both in a record.

mod cell_result;
mod engine;
mod group;
mod heap;
mod job;
mod messages;
mod metrics;
mod observer;
mod panic_hook;
mod progress;
mod throttle_marks;
mod worker;

pub use engine::Burn;
pub use metrics::{Measurements, summarise};
pub use worker::worker;
