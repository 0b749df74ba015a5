//! NVIDIA Management Library (NVML), loaded at run time.

mod device_lookup;
mod library;
mod read_log;
mod source;
mod state;

pub use library::{Library, unavailable};
pub use source::GpuSource;
pub use state::{Device, gpus, state};
