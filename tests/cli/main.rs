//! Drives the binary as a user does: exit code and both streams.

mod devices;
mod errors;
mod pages;
mod records;
mod resume;
mod runs;
mod support;
mod workers;
