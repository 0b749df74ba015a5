//! Tests of statistics against SciPy, and of the claims in docs/methodology.md by simulation.

mod coverage;
mod gate;
mod golden;
