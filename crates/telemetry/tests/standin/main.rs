//! Tests of telemetry with devices that misbehave. The tested code loads a simulated NVML (`tests/nvml`), which reads its
//! values from a script. Time is simulated with a reading every 10 ms, except in tests that state otherwise.
#![cfg(target_os = "linux")]

mod energy;
mod failures;
mod machine;
mod processes;
mod sampling;
mod throttling;
mod which;
