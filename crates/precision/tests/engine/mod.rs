//! The engine against what is not ours: PyTorch's numbers, exact arithmetic, and its own results read back.

mod attention;
mod convolutions;
mod elementwise;
mod golden;
mod layouts;
mod products;
