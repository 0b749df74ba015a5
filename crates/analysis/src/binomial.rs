//! Confidence intervals of binomial proportions.

use statrs::distribution::{Beta, ContinuousCDF};

use crate::{CONFIDENCE, Estimate, Interval, estimate::Z};

/// Estimates the share `hits / n` with Wilson's 95 % score interval (Wilson 1927, doi:10.1080/01621459.1927.10502953).
///
/// Unlike the normal approximation, the interval stays within 0 and 1, and its width is not 0 for 0 or `n` hits. Returns `None` if `n` is 0
/// or less than `hits`.
pub fn wilson(hits: u64, n: u64) -> Option<Estimate> {
    if n == 0 || hits > n {
        return None;
    }
    let (share, count) = (hits as f64 / n as f64, n as f64);
    let shrink = 1.0 + Z * Z / count;
    let centre = (share + Z * Z / (2.0 * count)) / shrink;
    let half = Z / shrink * (share * (1.0 - share) / count + Z * Z / (4.0 * count * count)).sqrt();
    // For 0 and `n` hits, the interval ends exactly at 0 and 1. The formula has rounding errors there.
    let low = if hits == 0 { 0.0 } else { centre - half };
    let high = if hits == n { 1.0 } else { centre + half };
    Some(Estimate {
        value: share,
        interval: Some(Interval { low, high }),
        n,
        method: "Wilson",
    })
}

/// Estimates the share `hits / n` with the exact 95 % interval (Clopper and Pearson 1934, doi:10.1093/biomet/26.4.404). The interval
/// consists of the shares that two one-sided binomial tests do not reject at 2.5 % each. Use it for small `n`, where the coverage of
/// Wilson's interval can be below 95 %. Returns `None` if `n` is 0 or less than `hits`.
pub fn exact_share(hits: u64, n: u64) -> Option<Estimate> {
    if n == 0 || hits > n {
        return None;
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let (k, count) = (hits as f64, n as f64);
    // For 0 or `n` hits, one of the two Beta distributions does not exist. The interval then ends at 0 or 1.
    let end = |a: f64, b: f64, p: f64| Some(Beta::new(a, b).ok()?.inverse_cdf(p));
    Some(Estimate {
        value: k / count,
        interval: Some(Interval {
            low: end(k, count - k + 1.0, tail).unwrap_or(0.0),
            high: end(k + 1.0, count - k, 1.0 - tail).unwrap_or(1.0),
        }),
        n,
        method: "Clopper–Pearson",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(hits: u64, n: u64) -> (f64, f64) {
        let interval = wilson(hits, n).unwrap().interval.unwrap();
        (interval.low, interval.high)
    }

    fn assert_close(actual: (f64, f64), expected: (f64, f64)) {
        let close = |a: f64, b: f64| (a - b).abs() < 5e-7;
        assert!(
            close(actual.0, expected.0) && close(actual.1, expected.1),
            "{actual:?} {expected:?}"
        );
    }

    #[test]
    fn wilson_matches_hand_calculation_and_published_table() {
        // z² = 3.841459: 5 of 10 gives centre 1/2 and half-width z/(1+z²/10)·√(0.025 + z²/400) = 0.263406.
        assert_close(ends(5, 10), (0.236_593, 0.763_407));
        // Newcombe 1998, Statistics in Medicine 17:857, table I: 81/263, 15/148, 1/29.
        let printed = |(low, high): (f64, f64)| (format!("{low:.4}"), format!("{high:.4}"));
        assert_eq!(printed(ends(81, 263)), ("0.2553".into(), "0.3662".into()));
        assert_eq!(printed(ends(15, 148)), ("0.0624".into(), "0.1605".into()));
        assert_eq!(printed(ends(1, 29)), ("0.0061".into(), "0.1718".into()));
    }

    #[test]
    fn article_accuracy_has_a_half_width_of_half_a_point() {
        let (low, high) = ends(9_196, 9_996);
        assert!(
            ((high - low) / 2.0 - 0.0053).abs() < 1e-4,
            "half-width is 1.96 standard errors of 0.27 points"
        );
    }

    #[test]
    fn zero_and_all_hits_have_a_nonzero_width() {
        // With one example, the upper end for 0 hits is z²/(1+z²) = 0.793451.
        assert_close(ends(0, 1), (0.0, 0.793_451));
        assert_close(ends(1, 1), (0.206_549, 1.0));
        assert_close(ends(0, 20), (0.0, 0.161_125));
        assert_eq!(ends(20, 20).1, 1.0);
    }

    #[test]
    fn exact_interval_excludes_one_half_from_six_of_six() {
        let ends = |hits, n| exact_share(hits, n).unwrap().interval.unwrap();
        // For `n` of `n` hits, the lower end is the n-th root of 0.025.
        assert!((ends(1, 1).low - 0.025).abs() < 1e-9 && (ends(6, 6).low - 0.540_741).abs() < 1e-5);
        assert!(ends(5, 5).low < 0.5 && ends(6, 6).low > 0.5 && ends(0, 6).high < 0.5);
        // 3 of 10: values from tables.
        assert!((ends(3, 10).low - 0.066_74).abs() < 1e-4 && (ends(3, 10).high - 0.652_45).abs() < 1e-4);
        assert_eq!((ends(0, 3).low, ends(3, 3).high), (0.0, 1.0));
        assert_eq!((exact_share(0, 0), exact_share(3, 2)), (None, None));
    }

    #[test]
    fn invalid_counts_have_no_estimate() {
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(3, 2), None);
    }

    proptest! {
        #[test]
        fn interval_contains_the_share_and_stays_within_0_and_1(n in 1u64..100_000, part in 0.0f64..=1.0) {
            let hits = (part * n as f64) as u64;
            let estimate = wilson(hits, n).unwrap();
            let interval = estimate.interval.unwrap();
            prop_assert!(interval.contains(estimate.value));
            prop_assert!(0.0 <= interval.low && interval.high <= 1.0 && interval.low < interval.high);
        }
    }
}
