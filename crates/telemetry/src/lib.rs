//! Samplers that run beside a workload: host memory, and NVML for NVIDIA devices.
//!
//! A [`Sampler`] reads its [`Source`]s on a thread of its own and gives back a [`Trace`]: series, peaks, energy. What
//! a machine cannot tell is absent and named once, never an error and never zero.

mod host;
mod nvml;
mod reading;
mod sampler;
mod trace;

pub use host::HostMemory;
pub use nvml::{Device, GpuSource, gpus, state, throttle_reasons, unavailable};
pub use reading::{Reading, Source};
pub use sampler::{PERIOD, Sampler};
pub use trace::{Energy, MIN_ENERGY_SECONDS, Trace};
