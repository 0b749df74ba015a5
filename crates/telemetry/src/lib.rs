//! Telemetry sampled during a workload: host memory, and NVML for NVIDIA devices.
//!
//! A [`Sampler`] reads its [`Source`]s on its own thread and returns a [`Trace`]: series, peaks, energy, throttling,
//! other processes, and the accuracy of the sampling. A value that the machine does not report is absent and listed
//! once with a reason; it is neither an error nor zero.

mod decimated;
mod energy;
mod host;
mod nvml;
mod other_processes;
mod rate;
mod reading;
mod sampler;
mod spans;
mod throttle;
mod trace;

pub use energy::{Energy, MIN_AVERAGING_TIMES, MIN_ENERGY_SECONDS};
pub use host::{HostMemory, keep_freed_memory};
pub use nvml::{Device, GpuSource, Library, gpus, state, unavailable};
pub use other_processes::{OtherProcess, OtherProcesses};
pub use rate::Rate;
pub use reading::{PERIOD, Process, Reading, Source};
pub use sampler::{Sampler, TraceHandle};
pub use throttle::{Throttled, Throttling, clock_settings, throttle_reasons};
pub use trace::{Peaks, Trace};
