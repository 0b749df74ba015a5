//! Maximum rounding error of a sum over ranks.

use mantissa_core::{Format, ReduceAlgorithm};

/// Returns the maximum error of a sum of one value per rank, relative to the sum of the absolute values. Each addition
/// rounds to nearest in the format. The bound does not hold if a partial sum overflows.
///
/// A value takes part in at most `h` additions, each of which changes it by a factor of at most `1 + u`, where `u` is half
/// the distance from 1 to the next larger value. The bound is `h u / (1 - h u)`. Sums along a chain (ring, linear) have
/// `h = ranks - 1`, the maximum of any order; trees and recursive doubling have `h = ⌈log2(ranks)⌉`. Source: N. J. Higham,
/// *Accuracy and Stability of Numerical Algorithms*, 2nd ed., 2002, section 4.2.
pub fn error_bound(algorithm: ReduceAlgorithm, format: Format, ranks: usize) -> f64 {
    let additions = match algorithm {
        ReduceAlgorithm::Ring | ReduceAlgorithm::Linear => ranks.saturating_sub(1) as f64,
        ReduceAlgorithm::Tree | ReduceAlgorithm::RecursiveDoubling => {
            f64::from(ranks.next_power_of_two().ilog2())
        }
    };
    let error = additions * format.epsilon() / 2.0;
    if error < 1.0 {
        error / (1.0 - error)
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{order, probe::addition};

    #[test]
    fn bound_of_eight_ranks() {
        let bound = |algorithm| error_bound(algorithm, Format::Bf16, 8);
        // u = 2^-8; 7 u / (1 - 7 u) = 7 / 249, and 3 u / (1 - 3 u) = 3 / 253.
        assert_eq!(bound(ReduceAlgorithm::Ring), 7.0 / 249.0);
        assert_eq!(bound(ReduceAlgorithm::Linear), 7.0 / 249.0);
        assert_eq!(bound(ReduceAlgorithm::Tree), 3.0 / 253.0);
        assert_eq!(bound(ReduceAlgorithm::RecursiveDoubling), 3.0 / 253.0);
        assert_eq!(
            error_bound(ReduceAlgorithm::RecursiveDoubling, Format::F32, 1),
            0.0
        );
        assert_eq!(
            error_bound(ReduceAlgorithm::Ring, Format::Bf16, 1000),
            f64::INFINITY
        );
    }

    /// Returns integers below `2^bits` from a linear congruential generator.
    fn integers(seed: u64, count: usize, bits: u32) -> Vec<i64> {
        let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let states = std::iter::successors(next(&seed), next);
        states
            .take(count)
            .map(|state| (state >> (64 - bits)) as i64)
            .collect()
    }

    #[test]
    fn errors_of_sums_of_integers_are_within_the_bound() {
        // Integers of 11 and 8 bits are exact in f16 and bf16, and i64 has their exact sum.
        for (format, bits) in [(Format::F16, 11), (Format::Bf16, 8), (Format::F32, 24)] {
            for ranks in [2, 3, 5, 8, 16] {
                for algorithm in ReduceAlgorithm::ALL {
                    let bound = error_bound(*algorithm, format, ranks);
                    let mut largest = 0.0_f64;
                    for seed in 0..2000 {
                        let integers = integers(seed, ranks, bits);
                        let values: Vec<f64> = integers.iter().map(|integer| *integer as f64).collect();
                        let exact = integers.iter().sum::<i64>() as f64;
                        let sum = order::sum(*algorithm, &values, ranks / 2, &addition(format));
                        largest = largest.max((sum - exact).abs() / exact);
                    }
                    assert!(
                        largest <= bound,
                        "{algorithm} in {format}: {largest} exceeds {bound}"
                    );
                    assert!(
                        largest > bound / 20.0,
                        "{algorithm} in {format}: {bound} is loose, {largest} observed"
                    );
                }
            }
        }
    }
}
