//! Correction for multiple tests.

/// Computes Holm's adjusted p-values, in the given order (Holm 1979, *Scandinavian Journal of Statistics* 6:65). If adjusted values up to
/// 0.05 are called significant, a family contains any false positive with a probability of at most 5 %. Tests may be dependent. NaN stays
/// NaN and does not count as a test.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&at| !p_values[at].is_nan()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        largest = largest.max(((order.len() - rank) as f64 * p_values[at]).min(1.0));
        adjusted[at] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adjusted_values_match_hand_calculation() {
        // In ascending order: 4·0.01, 3·0.02, 2·0.03, max(0.06, 0.04).
        let adjusted = holm(&[0.02, 0.04, 0.01, 0.03]);
        let expected = [0.06, 0.06, 0.04, 0.06];
        assert!(
            adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12),
            "{adjusted:?}"
        );
    }

    #[test]
    fn single_value_is_unchanged_and_empty_input_stays_empty() {
        assert_eq!(holm(&[0.03]), [0.03]);
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
    }

    #[test]
    fn nan_is_not_counted_as_a_test() {
        let adjusted = holm(&[f64::NAN, 0.02]);
        assert!(adjusted[0].is_nan());
        assert_eq!(adjusted[1], 0.02);
    }

    proptest! {
        #[test]
        fn adjusted_values_lie_between_raw_and_bonferroni(p in proptest::collection::vec(0.0f64..1.0, 1..20)) {
            let adjusted = holm(&p);
            prop_assert!(p.iter().zip(&adjusted).all(|(p, a)| p <= a && *a <= (p * 20.0).min(1.0)));
            let smallest = p.iter().copied().fold(1.0, f64::min);
            prop_assert!((adjusted.iter().copied().fold(1.0, f64::min) - (smallest * p.len() as f64).min(1.0)).abs() < 1e-12);
        }
    }
}
