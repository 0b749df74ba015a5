//! Drives the binary as a user does: exit code and both streams.

mod accept;
mod advise;
mod beside;
mod company;
mod cuda;
mod devices;
mod disk;
mod errors;
mod evaluate;
mod export;
mod measuring;
mod nvml;
mod own;
mod pages;
mod probe;
mod processes;
mod records;
mod resume;
mod runs;
mod scale;
mod sensitivity;
mod soak;
mod standin;
mod stops;
mod support;
mod workers;
