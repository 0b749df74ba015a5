//! Elementary functions that the compiler vectorizes: without branches, tables and calls.
//!
//! libm's functions are accurate to one unit in the last place, but process one value at a time. The functions of this module process as
//! many values at a time as fit into a register. The tests define the permitted errors. [`pulp::Arch::dispatch`] runs loops over them with
//! the widest registers of the machine. Functions called from these loops must be inlined, hence the many `#[inline(always)]`.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use num_traits::Float;
use pulp::Simd;

/// Format of intermediate results: f32, or f64 for f64 tensors.
pub(crate) trait Wide: Float + burn::tensor::Element + bytemuck::Pod + Send + Sync {
    /// Rounds an f64 to the nearest value.
    fn round_from_f64(x: f64) -> Self;
    /// Computes `e^x` for `x ≤ 0`, times a constant of the format. Softmax divides by the sum, so the constant cancels. In f32 the constant
    /// prevents subnormal results; in f64 it is 1.
    fn scaled_exp(self) -> Self;
    /// Computes the hyperbolic tangent.
    fn fast_tanh(self) -> Self;
    /// Computes the distribution function and density of the standard normal distribution.
    fn normal_cdf_and_pdf(self) -> (Self, Self);
    /// Computes the dot product of two rows of the same length.
    fn dot<S: Simd>(simd: S, xs: &[Self], ys: &[Self]) -> Self;
    /// Computes the sum of squared differences between the values of a row and `center`.
    fn squared_differences<S: Simd>(simd: S, xs: &[Self], center: Self) -> Self;
    /// Computes the sum of a row.
    fn row_sum<S: Simd>(simd: S, xs: &[Self]) -> Self;
    /// Returns the maximum of a row; minus infinity if it is empty. The result for NaN is unspecified.
    fn row_max<S: Simd>(simd: S, xs: &[Self]) -> Self;
}

/// Independent accumulators, to hide the latency of the operations.
const CHAINS: usize = 4;

/// Reduces registers with explicit accumulators, because the compiler may break up loops over sums after inlining. The order of summation
/// depends on the register width of the processor, but not on the number of threads.
#[inline(always)]
fn reduce_registers<R: Copy>(
    all: &[R],
    start: R,
    accumulate: impl Fn(R, R) -> R,
    combine: impl Fn(R, R) -> R,
) -> R {
    let (chunks, rest) = all.as_chunks::<CHAINS>();
    let mut parts = [start; CHAINS];
    for chunk in chunks {
        for chain in 0..CHAINS {
            parts[chain] = accumulate(parts[chain], chunk[chain]);
        }
    }
    let [a, b, c, d] = parts;
    let start = combine(combine(a, b), combine(c, d));
    rest.iter().fold(start, |all, x| accumulate(all, *x))
}

macro_rules! impl_row_reductions {
    ($split:ident, $splat:ident, $mul_add:ident, $add:ident, $sub:ident, $max:ident, $sum:ident, $most:ident) => {
        #[inline(always)]
        fn dot<S: Simd>(simd: S, xs: &[Self], ys: &[Self]) -> Self {
            let ((xs, last_xs), (ys, last_ys)) = (S::$split(xs), S::$split(ys));
            let ((xs, more_xs), (ys, more_ys)) = (xs.as_chunks::<CHAINS>(), ys.as_chunks::<CHAINS>());
            let mut sums = [simd.$splat(0.0); CHAINS];
            for (xs, ys) in xs.iter().zip(ys) {
                for chain in 0..CHAINS {
                    sums[chain] = simd.$mul_add(xs[chain], ys[chain], sums[chain]);
                }
            }
            for (x, y) in more_xs.iter().zip(more_ys) {
                sums[0] = simd.$mul_add(*x, *y, sums[0]);
            }
            let [a, b, c, d] = sums;
            let total = simd.$sum(simd.$add(simd.$add(a, b), simd.$add(c, d)));
            let last = last_xs.iter().zip(last_ys);
            last.fold(total, |total, (x, y)| total + x * y)
        }

        #[inline(always)]
        fn row_sum<S: Simd>(simd: S, xs: &[Self]) -> Self {
            let (xs, last) = S::$split(xs);
            let add = |a, b| simd.$add(a, b);
            let total = reduce_registers(xs, simd.$splat(0.0), add, add);
            last.iter().fold(simd.$sum(total), |total, x| total + x)
        }

        #[inline(always)]
        fn squared_differences<S: Simd>(simd: S, xs: &[Self], center: Self) -> Self {
            let (xs, last) = S::$split(xs);
            let centers = simd.$splat(center);
            let accumulate = |sum, x| {
                let difference = simd.$sub(x, centers);
                simd.$mul_add(difference, difference, sum)
            };
            let total = reduce_registers(xs, simd.$splat(0.0), accumulate, |a, b| simd.$add(a, b));
            let last = last.iter().map(|x| (x - center) * (x - center));
            last.fold(simd.$sum(total), |total, x| total + x)
        }

        #[inline(always)]
        fn row_max<S: Simd>(simd: S, xs: &[Self]) -> Self {
            let (xs, last) = S::$split(xs);
            let max = |a, b| simd.$max(a, b);
            let most = reduce_registers(xs, simd.$splat(Self::NEG_INFINITY), max, max);
            last.iter().fold(simd.$most(most), |most, x| most.max(*x))
        }
    };
}

impl Wide for f64 {
    impl_row_reductions!(
        as_simd_f64s,
        splat_f64s,
        mul_add_f64s,
        add_f64s,
        sub_f64s,
        max_f64s,
        reduce_sum_f64s,
        reduce_max_f64s
    );

    fn round_from_f64(x: f64) -> Self {
        x
    }
    fn scaled_exp(self) -> Self {
        self.exp()
    }
    fn fast_tanh(self) -> Self {
        self.tanh()
    }
    fn normal_cdf_and_pdf(self) -> (Self, Self) {
        let density = (-0.5 * self * self).exp() / (2.0 * PI).sqrt();
        (0.5 * libm::erfc(-self * FRAC_1_SQRT_2), density)
    }
}

impl Wide for f32 {
    impl_row_reductions!(
        as_simd_f32s,
        splat_f32s,
        mul_add_f32s,
        add_f32s,
        sub_f32s,
        max_f32s,
        reduce_sum_f32s,
        reduce_max_f32s
    );

    #[inline(always)]
    fn round_from_f64(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn scaled_exp(self) -> Self {
        // For smaller `x`, the result is 0 after division by the constant.
        let x = if self < -104.0 { -104.0 } else { self };
        let (rest, n_bits) = reduce_by_ln_2(x);
        power_series(rest) * power_of_two(n_bits, EXPONENT_OFFSET)
    }

    /// Computes the magnitude as `m / (m + 2)` with `m = e^(2|x|) − 1`. This formula is accurate near 0.
    #[inline(always)]
    fn fast_tanh(self) -> Self {
        // For larger |x|, the result rounds to 1.
        let (rest, n_bits) = reduce_by_ln_2(2.0 * at_most(self.abs(), 10.0));
        let scale = power_of_two(n_bits, 0);
        let excess = (rest * rest).mul_add(excess_over_square(rest), rest);
        let m = excess.mul_add(scale, scale - 1.0);
        (m / (m + 2.0)).copysign(self)
    }

    /// Computes the tail `Φ(−|x|)` as `e^(−x²/2)` times a polynomial in `(|x| − 3.25) / (|x| + 3.25)`. This is accurate
    /// also where `1 + erf` loses digits to cancellation.
    #[inline(always)]
    fn normal_cdf_and_pdf(self) -> (Self, Self) {
        // For larger |x|, the tail is 0.
        let a = at_most(self.abs(), 14.5);
        let square = a * a;
        let square_error = a.mul_add(a, -square);
        let (rest, n_bits) = reduce_by_ln_2(-0.5 * square);
        let gaussian = power_series(square_error.mul_add(-0.5, rest)) * power_of_two(n_bits, EXPONENT_OFFSET);
        let inverse = 1.0 / (a + 3.25);
        let u = (a - 3.25) * inverse;
        let lower = |c: f32| c * INVERSE_OFFSET;
        let smooth = TAIL.iter().rev().fold(0.0f32, |sum, &c| sum.mul_add(u, lower(c)));
        let tail = smooth * inverse * gaussian;
        let distribution = if self < 0.0 { tail } else { 1.0 - tail };
        (distribution, gaussian * lower((1.0 / (2.0 * PI).sqrt()) as f32))
    }
}

/// Returns the minimum of `x` and a bound; NaN is unchanged.
#[inline(always)]
fn at_most(x: f32, bound: f32) -> f32 {
    if x > bound { bound } else { x }
}

/// Subtracts a multiple `n · ln 2` from `x`, which leaves at most ln 2 / 2 in magnitude. Also returns the bits of `n` for
/// [`power_of_two`]. `|x|` must be at most 110.
#[inline(always)]
fn reduce_by_ln_2(x: f32) -> (f32, u32) {
    /// Adding this number to `x / ln 2` moves the nearest integer into the lowest nine bits.
    const NEAREST_INTEGER: f32 = 12_582_912.0; // 1.5 · 2^23
    // ln 2 as the sum of two numbers. The significand of the first one ends with zeros, so that its product with `n` is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let shifted = x.mul_add(std::f32::consts::LOG2_E, NEAREST_INTEGER);
    let n = shifted - NEAREST_INTEGER;
    let rest = n.mul_add(-LN_2[1], n.mul_add(-LN_2[0], x));
    (rest, shifted.to_bits())
}

/// Returns `2^(n + exponent_offset)`, a normal number, from the bits of `n`.
#[inline(always)]
fn power_of_two(n_bits: u32, exponent_offset: u32) -> f32 {
    f32::from_bits((n_bits << 23).wrapping_add((127 + exponent_offset) << 23))
}

/// Offset added to exponents, so that powers are normal numbers. A multiplication by [`INVERSE_OFFSET`] removes the offset and rounds once.
const EXPONENT_OFFSET: u32 = 64;
const INVERSE_OFFSET: f32 = 1.0 / (1u128 << EXPONENT_OFFSET) as f32;

/// Computes `e^r` for `|r| ≤ ln 2 / 2`.
#[inline(always)]
fn power_series(r: f32) -> f32 {
    excess_over_square(r).mul_add(r, 1.0).mul_add(r, 1.0)
}

/// Computes `(e^r − 1 − r) / r²` for `|r| ≤ ln 2 / 2` with the best polynomial of this degree. The error of `e^r` is
/// 4·10⁻⁹, relative to `e^r`.
#[inline(always)]
fn excess_over_square(r: f32) -> f32 {
    const POWERS: [f32; 5] = [
        0.499_999_94,
        0.166_665_21,
        0.041_668_39,
        0.008_368_745,
        0.001_381_454,
    ];
    POWERS.iter().rev().fold(0.0, |sum, &c| sum.mul_add(r, c))
}

/// Coefficients of `Φ(−a) · e^(a²/2) · (a + 3.25)` in powers of `(a − 3.25) / (a + 3.25)`, for `a` from 0 to 14.5: the best
/// polynomial of this degree, with a relative error of 4·10⁻⁸.
const TAIL: [f32; 10] = [
    0.737_438_4,
    -0.539_486_7,
    0.274_453_9,
    -0.080_924_5,
    0.001_097_404_3,
    0.008_304_423,
    -0.001_164_050_1,
    -0.001_051_633_9,
    1.434_596_9e-4,
    1.275_308_9e-4,
];

/// Writes the softmax of a row into `weights`.
#[inline(always)]
pub(crate) fn softmax<W: Wide, S: Simd>(simd: S, row: &[W], weights: &mut [W]) {
    let max = W::row_max(simd, row);
    for (x, weight) in row.iter().zip(&mut *weights) {
        *weight = (*x - max).scaled_exp();
    }
    let inverse = W::row_sum(simd, weights).recip();
    weights.iter_mut().for_each(|weight| *weight = *weight * inverse);
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};

    use super::*;

    /// Computes the dot product of a row with itself, its sum, its squared differences from 2 and its maximum.
    struct Reductions<'a>(&'a [f64]);

    impl WithSimd for Reductions<'_> {
        type Output = [f64; 4];

        fn with_simd<S: Simd>(self, simd: S) -> [f64; 4] {
            [
                f64::dot(simd, self.0, self.0),
                f64::row_sum(simd, self.0),
                f64::squared_differences(simd, self.0, 2.0),
                f64::row_max(simd, self.0),
            ]
        }
    }

    /// Returns the largest error of a function in units in the last place of f32, over every 977th f32 number within a
    /// bound, of both signs.
    fn max_ulp_error(bound: f32, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
        let ulp = |x: f64| mantissa_core::Format::F32.ulp(x);
        let numbers = (0..bound.to_bits()).step_by(977).map(f32::from_bits);
        let error = |x: f32| {
            let want = exact(f64::from(x));
            (f64::from(f(x)) - want).abs() / ulp(want)
        };
        numbers
            .map(|x| mantissa_testing::worse(error(x), error(-x)))
            .fold(0.0, mantissa_testing::worse)
    }

    #[test]
    fn elementary_functions_are_accurate_to_a_few_ulps() {
        // `max_ulp_error` passes numbers of both signs, and `scaled_exp` requires `x ≤ 0`. Hence `-x.abs()`.
        let weight = max_ulp_error(
            103.9,
            |x| (-x.abs()).scaled_exp() * INVERSE_OFFSET,
            |x| (-x.abs()).exp(),
        );
        assert!(weight < 1.2, "{weight}");
        let tangent = max_ulp_error(100.0, f32::fast_tanh, f64::tanh);
        assert!(tangent < 3.0, "{tangent}");
        let distribution = max_ulp_error(13.0, |x| x.normal_cdf_and_pdf().0, |x| x.normal_cdf_and_pdf().0);
        assert!(distribution < 5.0, "{distribution}");
        let density = max_ulp_error(13.0, |x| x.normal_cdf_and_pdf().1, |x| x.normal_cdf_and_pdf().1);
        assert!(density < 3.0, "{density}");
    }

    #[test]
    fn non_finite_and_out_of_range_values_are_handled() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(
            [0.0, -inf, -1e30, -104.5].map(|x| x.scaled_exp() * INVERSE_OFFSET),
            [1.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(
            [inf, -inf, 1e30, -1e30].map(f32::fast_tanh),
            [1.0, -1.0, 1.0, -1.0]
        );
        assert_eq!(
            [inf, -inf].map(|x| x.normal_cdf_and_pdf()),
            [(1.0, 0.0), (0.0, 0.0)]
        );
        assert!(nan.scaled_exp().is_nan() && nan.fast_tanh().is_nan() && nan.normal_cdf_and_pdf().0.is_nan());
        let smallest = f32::from_bits(1);
        assert_eq!(
            (-103.0f32).scaled_exp() * INVERSE_OFFSET,
            smallest,
            "a subnormal result"
        );
        assert_eq!(smallest.fast_tanh(), smallest);
        assert_eq!((-0.0f32).fast_tanh().to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn row_reductions_match_loops_for_any_length() {
        for n in [0, 1, 7, 8, 31, 32, 101] {
            let row: Vec<f64> = (0..n).map(|i| f64::from((i * 37) % 11) - 5.0).collect();
            let wanted = [
                row.iter().map(|x| x * x).sum(),
                row.iter().sum(),
                row.iter().map(|x| (x - 2.0) * (x - 2.0)).sum(),
                row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ];
            assert_eq!(Arch::new().dispatch(Reductions(&row)), wanted);
        }
    }
}
