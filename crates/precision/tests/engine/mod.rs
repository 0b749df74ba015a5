//! Tests of the operations against independent references: PyTorch's results, exact arithmetic, and the probe.

mod attention;
mod convolutions;
mod elementwise;
mod golden;
mod layouts;
mod products;
