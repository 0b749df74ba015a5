//! Values of kernel inputs. They are never all zeros: a GPU that multiplies zeros draws less power and runs faster.

use mantissa_core::Distribution;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// Scale of the sum of two cancelling products, relative to one of the products.
const REMAINDER: f64 = 1.0 / 64.0;

/// Draws independent values of a distribution. For [`Distribution::Cancellation`], the values are normal until [`cancel`] changes them.
pub(super) fn draw(count: usize, distribution: Distribution, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut value = || -> f64 {
        match distribution {
            Distribution::Normal | Distribution::Cancellation => rng.sample(StandardNormal),
            Distribution::Lognormal => rng.sample::<f64, _>(StandardNormal).exp(),
            Distribution::Uniform => rng.random(),
        }
    };
    (0..count).map(|_| value()).collect()
}

/// Makes neighbouring terms of every dot product of `[m, k] × [k, n]` cancel: the two terms get the same left factor and nearly opposite
/// right factors.
pub(super) fn cancel(lhs: &mut [f64], rhs: &mut [f64], [n, k]: [usize; 2]) {
    for row in lhs.chunks_exact_mut(k) {
        row.chunks_exact_mut(2).for_each(|pair| pair[1] = pair[0]);
    }
    for pair in rhs.chunks_exact_mut(2 * n) {
        let (first, second) = pair.split_at_mut(n);
        for (a, b) in first.iter().zip(second) {
            *b = -a * (1.0 + REMAINDER * *b);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn cancelling_operands_are_nonzero_with_small_sums() {
        let n = 64;
        let norm = |distribution| {
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let mut lhs = draw(n * n, distribution, &mut rng);
            let mut rhs = draw(n * n, distribution, &mut rng);
            if distribution == Distribution::Cancellation {
                cancel(&mut lhs, &mut rhs, [n, n]);
            }
            assert!(lhs.iter().chain(&rhs).all(|x| *x != 0.0), "{distribution}");
            let (mut sums, mut sizes) = (0.0, 0.0);
            for i in 0..n {
                for j in 0..n {
                    let terms = (0..n).map(|k| lhs[i * n + k] * rhs[k * n + j]);
                    sums += terms.clone().sum::<f64>().abs();
                    sizes += terms.map(f64::abs).sum::<f64>();
                }
            }
            sums / sizes
        };
        assert!(norm(Distribution::Cancellation) < 0.01);
        assert!(norm(Distribution::Normal) > 0.05);
        // All values are positive, so nothing cancels.
        assert!((norm(Distribution::Lognormal) - 1.0).abs() < 1e-9);
        assert!((norm(Distribution::Uniform) - 1.0).abs() < 1e-9);
    }
}
