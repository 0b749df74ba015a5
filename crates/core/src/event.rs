//! Events of a cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Kinds of events.
    pub enum EventKind ("kind of event") {
        /// Warning that reports show next to the row.
        Warning = "warning",
        /// Expectation of the suite that the record does not meet.
        Expectation = "expectation",
        /// Loss scale that was halved or doubled.
        LossScale = "loss-scale",
        /// First loss that was not finite.
        NonFiniteLoss = "non-finite-loss",
        /// Precision in which kernels computed, derived from their results.
        Observed = "observed",
        /// Step whose gradients were compared with those of other formats.
        Sensitivity = "sensitivity",
        /// Beginning of the generated text.
        Text = "text",
        /// Details of reading the weights of a checkpoint.
        Weights = "weights",
        /// End of the warm-up.
        WarmUp = "warm-up",
        /// End of sampling.
        Stopped = "stopped",
        /// Launches that were repeated because the clock was throttled.
        Retaken = "retaken",
        /// Clock that timed the launches.
        Clock = "clock",
        /// State of the cache before each launch.
        Cache = "cache",
        /// Result of cuBLASLt on the same operands.
        Cublas = "cublas",
        /// Kernel cache that could not be read or written.
        KernelCache = "kernel-cache",
        /// Rate at which device and host were sampled.
        Sampling = "sampling",
        /// Device quantity that became unreadable.
        Telemetry = "telemetry",
        /// Loss of the device.
        DeviceLost = "device-lost",
        /// Clock throttled by heat, power or hardware protection.
        Throttled = "throttled",
        /// Clock limited by a setting of the device.
        ClocksHeld = "clocks-held",
        /// Memory errors that ECC could not correct.
        Ecc = "ecc",
        /// Process of another program on the device.
        ForeignProcess = "foreign-process",
        /// Pause before the cell, during which the device cooled down.
        CoolDown = "cool-down",
    }
}

/// Event during an attempt at a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Kind.
    pub kind: EventKind,
    /// Optimizer step or launch at which it happened, from 1.
    pub step: Option<u64>,
    /// Value that belongs to the kind of event, such as the new loss scale.
    pub value: Option<f64>,
    /// Description as text.
    pub detail: String,
}

impl Event {
    /// Returns an event without a step or a value.
    pub fn new(kind: EventKind, detail: String) -> Self {
        Self {
            kind,
            step: None,
            value: None,
            detail,
        }
    }
}
