//! Worker process: computes one cell with burn, samples memory and power meanwhile, and summarizes both in a record.

mod engine;
mod heap;
mod summarise;
mod worker;

pub use engine::Burn;
pub use summarise::{Measurements, summarise};
pub use worker::worker;
