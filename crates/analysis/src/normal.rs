//! The standard normal distribution.

use statrs::distribution::{ContinuousCDF, Normal};

/// Returns the probability above `z`. Uses `libm` because the error function of statrs is accurate only to 1e-11, which is too imprecise
/// for small tails.
pub(crate) fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// Returns the value below which a standard normal variable lies with probability `p`; infinite for 0 and 1.
pub(crate) fn quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Z;

    #[test]
    fn upper_tail_and_quantile_match_printed_tables() {
        assert!((upper_tail(Z) - 0.025).abs() < 1e-12);
        assert!((upper_tail(-1.0) - 0.841_344_746_068_543).abs() < 1e-12);
        assert!((upper_tail(6.0) / 9.865_876_450_376_98e-10 - 1.0).abs() < 1e-9);
        assert!((quantile(0.975) - Z).abs() < 1e-9);
        assert_eq!(quantile(0.5), 0.0);
    }
}
