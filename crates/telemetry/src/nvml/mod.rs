//! NVIDIA Management Library (NVML), loaded at run time.

mod library;
mod notes;
mod source;
mod state;
mod which;

pub use library::{Library, unavailable};
pub use source::GpuSource;
pub use state::{Device, gpus, state};
