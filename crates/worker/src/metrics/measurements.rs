//! Measurements from which the metrics of a record are computed.

use std::ops::Range;

use mantissa_telemetry::{Peaks, Trace};
use mantissa_workloads::{AllocatorBytes, Outcome};

/// Measurements of a workload and of the device and process that ran it.
#[derive(Debug)]
pub struct Measurements<'a> {
    /// Measurements of the workload itself.
    pub outcome: &'a Outcome,
    /// Samples taken while the workload ran.
    pub trace: &'a Trace,
    /// The measured phase, in seconds of the trace.
    pub window: Range<f64>,
    /// Idle power of the device in watts, or why it is unknown.
    pub idle_watts: &'a Result<f64, String>,
    /// Memory peaks up to the time at which the workload reported that its peak was reached. The host peak excludes the
    /// memory for reading the data if the operating system can reset its peak counter.
    pub peaks: Peaks,
    /// Peaks of the device allocator, if it reports them.
    pub allocator: Option<AllocatorBytes>,
    /// True if another framework computed the cell. `allocator` then contains the peaks that the framework's own allocator reported.
    pub by_peer: bool,
}
