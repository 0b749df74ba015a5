//! Binomial distribution with p = ½: the null distribution of sign tests, also used for intervals of medians.

use statrs::function::factorial::ln_binomial;

/// Computes P(B ≤ k), where B is the number of heads in `n` tosses of a fair coin. Sums the terms downwards from `k` until they are
/// negligible. This takes about √n terms and is fast even for a million tosses.
pub(crate) fn cdf(k: u64, n: u64) -> f64 {
    if k >= n {
        return 1.0;
    }
    if 2 * k >= n {
        return 1.0 - cdf(n - k - 1, n);
    }
    let largest = (ln_binomial(n, k) - n as f64 * std::f64::consts::LN_2).exp();
    let (mut term, mut sum) = (1.0, 1.0);
    for j in (1..=k).rev() {
        term *= j as f64 / (n - j + 1) as f64;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    largest * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-12, "{actual} {expected}");
    }

    #[test]
    fn cdf_matches_counting_for_few_tosses() {
        assert_close(cdf(0, 1), 0.5);
        assert_close(cdf(0, 5), 1.0 / 32.0);
        assert_close(cdf(1, 5), 6.0 / 32.0);
        assert_close(cdf(2, 5), 0.5);
        assert_close(cdf(3, 5), 26.0 / 32.0);
        assert_eq!(cdf(5, 5), 1.0);
        assert_eq!(cdf(0, 0), 1.0);
    }

    #[test]
    fn cdf_matches_the_normal_distribution_for_many_tosses() {
        // B has a standard deviation of 500. With the continuity correction, the normal approximation is accurate to 1e-6 here.
        let z = (499_020.0_f64 + 0.5 - 500_000.0) / 500.0;
        let normal = 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
        assert!((cdf(499_020, 1_000_000) - normal).abs() < 1e-6);
    }
}
