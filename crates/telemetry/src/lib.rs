//! Samplers that run beside a workload: host memory, and NVML for NVIDIA devices.
//!
//! A [`Sampler`] reads its [`Source`]s on a thread of its own and gives back a [`Trace`]: series, peaks, energy, when
//! the clock was held back, who else was there, and how well the sampler kept its time. What a machine cannot tell is
//! absent and named once, never an error and never zero.

mod energy;
mod foreign;
mod host;
mod nvml;
mod rate;
mod reading;
mod sampler;
mod spans;
mod thinned;
mod throttle;
mod trace;

pub use energy::{Energy, MIN_AVERAGING_TIMES, MIN_ENERGY_SECONDS};
pub use foreign::{Foreign, Stranger};
pub use host::{HostMemory, keep_freed_memory};
pub use nvml::{Device, GpuSource, Library, gpus, state, unavailable};
pub use rate::Rate;
pub use reading::{Process, Reading, Source};
pub use sampler::{Glance, PERIOD, Sampler};
pub use throttle::{Throttled, Throttling, clock_settings, throttle_reasons};
pub use trace::{Peaks, Trace};
