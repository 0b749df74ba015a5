//! Telemetry of devices that misbehave: the real code on a library (`tests/nvml`) that answers from a script. Time is
//! made up by the tests but for those that say so, a reading every 10 ms.
#![cfg(target_os = "linux")]

mod energy;
mod failures;
mod machine;
mod processes;
mod sampling;
mod throttling;
mod which;
