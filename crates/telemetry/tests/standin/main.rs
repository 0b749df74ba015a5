//! Tests of telemetry with devices that misbehave. The real code runs on a library (`tests/nvml`) that reads its values
//! from a script. Time is simulated with a reading every 10 ms, except in tests that state otherwise.
#![cfg(target_os = "linux")]

mod energy;
mod failures;
mod machine;
mod processes;
mod sampling;
mod throttling;
mod which;
