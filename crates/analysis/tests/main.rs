//! Tests of the statistics: comparison with SciPy, and simulations of the claims in docs/methodology.md.

mod coverage;
mod gate;
mod golden;
