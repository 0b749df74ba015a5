//! Elementary functions that the compiler vectorizes: without branches, tables and calls.
//!
//! libm's functions are accurate to one unit in the last place, but process one value at a time. These process as many
//! values as fit into a register, with the errors that the tests state. [`pulp::Arch::dispatch`] runs loops over them with
//! the widest registers of the machine. Functions called from these loops must be inlined, hence the many
//! `#[inline(always)]`.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use num_traits::Float;
use pulp::Simd;

/// Format of intermediate results: f32, or f64 for f64 tensors.
pub(crate) trait Wide: Float + burn::tensor::Element + bytemuck::Pod + Send + Sync {
    /// Rounds to the nearest value.
    fn of(x: f64) -> Self;
    /// Computes `e^x` for `x` up to 0, times a constant of the format, for weights that are divided by their sum. The
    /// constant of f32 prevents subnormal results; that of f64 is 1.
    fn weight(self) -> Self;
    /// Computes the hyperbolic tangent.
    fn tangent(self) -> Self;
    /// Computes the distribution function and density of the standard normal distribution.
    fn normal(self) -> (Self, Self);
    /// Computes the dot product of two rows of the same length.
    fn dot<S: Simd>(simd: S, xs: &[Self], ys: &[Self]) -> Self;
    /// Computes the sum of squared differences between the values of a row and a level.
    fn spread<S: Simd>(simd: S, xs: &[Self], level: Self) -> Self;
    /// Computes the sum of a row.
    fn total<S: Simd>(simd: S, xs: &[Self]) -> Self;
    /// Returns the maximum of a row; minus infinity if it is empty. The result for NaN is unspecified.
    fn largest<S: Simd>(simd: S, xs: &[Self]) -> Self;
}

/// Independent accumulators, to hide the latency of the operations.
const CHAINS: usize = 4;

/// Reduces registers with explicit accumulators, because the compiler may break up loops over sums after inlining. The order of a
/// sum depends on the width of the registers, and so on the processor, but not on the number of threads.
#[inline(always)]
fn joined<R: Copy>(all: &[R], start: R, take: impl Fn(R, R) -> R, join: impl Fn(R, R) -> R) -> R {
    let (chunks, more) = all.as_chunks::<CHAINS>();
    let mut parts = [start; CHAINS];
    for chunk in chunks {
        for chain in 0..CHAINS {
            parts[chain] = take(parts[chain], chunk[chain]);
        }
    }
    let [a, b, c, d] = parts;
    let start = join(join(a, b), join(c, d));
    more.iter().fold(start, |all, x| take(all, *x))
}

macro_rules! of_rows {
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
        fn total<S: Simd>(simd: S, xs: &[Self]) -> Self {
            let (xs, last) = S::$split(xs);
            let add = |a, b| simd.$add(a, b);
            let total = joined(xs, simd.$splat(0.0), add, add);
            last.iter().fold(simd.$sum(total), |total, x| total + x)
        }

        #[inline(always)]
        fn spread<S: Simd>(simd: S, xs: &[Self], level: Self) -> Self {
            let (xs, last) = S::$split(xs);
            let levels = simd.$splat(level);
            let take = |sum, x| {
                let apart = simd.$sub(x, levels);
                simd.$mul_add(apart, apart, sum)
            };
            let total = joined(xs, simd.$splat(0.0), take, |a, b| simd.$add(a, b));
            let last = last.iter().map(|x| (x - level) * (x - level));
            last.fold(simd.$sum(total), |total, x| total + x)
        }

        #[inline(always)]
        fn largest<S: Simd>(simd: S, xs: &[Self]) -> Self {
            let (xs, last) = S::$split(xs);
            let max = |a, b| simd.$max(a, b);
            let most = joined(xs, simd.$splat(Self::NEG_INFINITY), max, max);
            last.iter().fold(simd.$most(most), |most, x| most.max(*x))
        }
    };
}

impl Wide for f64 {
    of_rows!(
        as_simd_f64s,
        splat_f64s,
        mul_add_f64s,
        add_f64s,
        sub_f64s,
        max_f64s,
        reduce_sum_f64s,
        reduce_max_f64s
    );

    fn of(x: f64) -> Self {
        x
    }
    fn weight(self) -> Self {
        self.exp()
    }
    fn tangent(self) -> Self {
        self.tanh()
    }
    fn normal(self) -> (Self, Self) {
        let density = (-0.5 * self * self).exp() / (2.0 * PI).sqrt();
        (0.5 * libm::erfc(-self * FRAC_1_SQRT_2), density)
    }
}

impl Wide for f32 {
    of_rows!(
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
    fn of(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn weight(self) -> Self {
        // Below, the result is rounded to 0 where the constant is divided out.
        let x = if self < -104.0 { -104.0 } else { self };
        let (rest, whole) = reduced(x);
        power_series(rest) * two_to(whole, RAISED)
    }

    /// Computes `m / (m + 2)` with `m = e^2|x| − 1`, which is accurate near 0.
    #[inline(always)]
    fn tangent(self) -> Self {
        // Above, the result is 1 to the last digit.
        let (rest, whole) = reduced(2.0 * below(self.abs(), 10.0));
        let scale = two_to(whole, 0);
        let excess = (rest * rest).mul_add(excess_over_square(rest), rest);
        let m = excess.mul_add(scale, scale - 1.0);
        (m / (m + 2.0)).copysign(self)
    }

    /// Computes the tail `Φ(−|x|)` as `e^(−x²/2)` times a smooth function, here a polynomial in `(|x| − 3.25) / (|x| +
    /// 3.25)`, which stays accurate where `1 + erf` cancels.
    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        // Above, the tail is 0.
        let a = below(self.abs(), 14.5);
        let square = a * a;
        let lost = a.mul_add(a, -square);
        let (rest, whole) = reduced(-0.5 * square);
        let bell = power_series(lost.mul_add(-0.5, rest)) * two_to(whole, RAISED);
        let inverse = 1.0 / (a + 3.25);
        let u = (a - 3.25) * inverse;
        let lower = |c: f32| c * LOWERED;
        let smooth = TAIL.iter().rev().fold(0.0f32, |sum, &c| sum.mul_add(u, lower(c)));
        let tail = smooth * inverse * bell;
        let distribution = if self < 0.0 { tail } else { 1.0 - tail };
        (distribution, bell * lower((1.0 / (2.0 * PI).sqrt()) as f32))
    }
}

/// Returns the minimum of `x` and a bound; NaN is unchanged.
#[inline(always)]
fn below(x: f32, most: f32) -> f32 {
    if x > most { most } else { x }
}

/// Reduces `x` by a multiple `n` of ln 2 to at most ln 2 / 2 in magnitude. Also returns the bits of `n` for [`two_to`].
/// `|x|` must be at most 110.
#[inline(always)]
fn reduced(x: f32) -> (f32, u32) {
    /// Adding it moves the nearest integer into the lowest nine bits.
    const WHOLE: f32 = 12_582_912.0; // 1.5 · 2^23
    // ln 2 in two parts. The first ends with zeros, which makes its multiple by `n` exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let shifted = x.mul_add(std::f32::consts::LOG2_E, WHOLE);
    let n = shifted - WHOLE;
    let rest = n.mul_add(-LN_2[1], n.mul_add(-LN_2[0], x));
    (rest, shifted.to_bits())
}

/// Returns `2^(n + raised)`, a normal number, from the bits of `n`.
#[inline(always)]
fn two_to(whole: u32, raised: u32) -> f32 {
    f32::from_bits((whole << 23).wrapping_add((127 + raised) << 23))
}

/// Exponent offset of powers, which keeps them normal. The last factor removes it and rounds once.
const RAISED: u32 = 64;
const LOWERED: f32 = 1.0 / (1u128 << RAISED) as f32;

/// Computes `e^r` for `|r| ≤ ln 2 / 2`.
#[inline(always)]
fn power_series(r: f32) -> f32 {
    excess_over_square(r).mul_add(r, 1.0).mul_add(r, 1.0)
}

/// Computes `(e^r − 1 − r) / r²` for `|r| ≤ ln 2 / 2` with the best polynomial of this degree. Its error is 4·10⁻⁹ of
/// `e^r`.
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

/// Writes the softmax of a row.
#[inline(always)]
pub(crate) fn softmax<W: Wide, S: Simd>(simd: S, row: &[W], shares: &mut [W]) {
    let most = W::largest(simd, row);
    for (x, share) in row.iter().zip(&mut *shares) {
        *share = (*x - most).weight();
    }
    let inverse = W::total(simd, shares).recip();
    shares.iter_mut().for_each(|share| *share = *share * inverse);
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};

    use super::*;

    /// Computes the dot product of a row with itself, its sum, its squared differences from 2 and its maximum.
    struct OfRow<'a>(&'a [f64]);

    impl WithSimd for OfRow<'_> {
        type Output = [f64; 4];

        fn with_simd<S: Simd>(self, simd: S) -> [f64; 4] {
            [
                f64::dot(simd, self.0, self.0),
                f64::total(simd, self.0),
                f64::spread(simd, self.0, 2.0),
                f64::largest(simd, self.0),
            ]
        }
    }

    /// Returns the largest error of a function in units in the last place of f32, over every 977th f32 number within a
    /// bound, of both signs.
    fn worst(bound: f32, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
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
    fn elementary_functions_are_right_to_a_few_units_in_the_last_place() {
        // Both signs are tested: `-x.abs()` maps positive numbers to negative ones.
        let weight = worst(103.9, |x| (-x.abs()).weight() * LOWERED, |x| (-x.abs()).exp());
        assert!(weight < 1.2, "{weight}");
        let tangent = worst(100.0, f32::tangent, f64::tanh);
        assert!(tangent < 3.0, "{tangent}");
        let distribution = worst(13.0, |x| x.normal().0, |x| x.normal().0);
        assert!(distribution < 5.0, "{distribution}");
        let density = worst(13.0, |x| x.normal().1, |x| x.normal().1);
        assert!(density < 3.0, "{density}");
    }

    #[test]
    fn non_finite_and_out_of_range_values() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(
            [0.0, -inf, -1e30, -104.5].map(|x| x.weight() * LOWERED),
            [1.0, 0.0, 0.0, 0.0]
        );
        assert_eq!([inf, -inf, 1e30, -1e30].map(f32::tangent), [1.0, -1.0, 1.0, -1.0]);
        assert_eq!([inf, -inf].map(|x| x.normal()), [(1.0, 0.0), (0.0, 0.0)]);
        assert!(nan.weight().is_nan() && nan.tangent().is_nan() && nan.normal().0.is_nan());
        let smallest = f32::from_bits(1);
        assert_eq!((-103.0f32).weight() * LOWERED, smallest, "a subnormal result");
        assert_eq!(smallest.tangent(), smallest);
        assert_eq!((-0.0f32).tangent().to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn sums_and_maxima_of_any_length_are_those_of_loops() {
        for n in [0, 1, 7, 8, 31, 32, 101] {
            let row: Vec<f64> = (0..n).map(|i| f64::from((i * 37) % 11) - 5.0).collect();
            let wanted = [
                row.iter().map(|x| x * x).sum(),
                row.iter().sum(),
                row.iter().map(|x| (x - 2.0) * (x - 2.0)).sum(),
                row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ];
            assert_eq!(Arch::new().dispatch(OfRow(&row)), wanted);
        }
    }
}
