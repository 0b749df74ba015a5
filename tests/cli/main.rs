//! Drives the binary as a user does: exit code and both streams.

mod cuda;
mod devices;
mod errors;
mod measuring;
mod pages;
mod probe;
mod records;
mod resume;
mod runs;
mod support;
mod workers;
