//! Elementary functions that the compiler vectorises: no branches, no tables, no calls.
//!
//! libm's are right to a unit in the last place, one value at a time. These take as many values as the registers hold, and
//! are within the errors that the tests state. Loops over them run by [`pulp::Arch::dispatch`] with the widest registers
//! of the machine; what it calls has to be inlined into them, which is why so much here is `#[inline(always)]`.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use num_traits::Float;
use pulp::Simd;

/// What values are computed in: f32, or f64 for f64 tensors.
pub(super) trait Wide: Float + burn::tensor::Element + bytemuck::Pod + Send + Sync {
    /// The nearest value.
    fn of(x: f64) -> Self;
    /// `e^x`.
    fn exponential(self) -> Self;
    /// The hyperbolic tangent.
    fn tangent(self) -> Self;
    /// Distribution function and density of the standard normal distribution.
    fn normal(self) -> (Self, Self);
    /// The sum of the products of two rows of one length, in registers that are named: the compiler takes loops like [`sum`]'s
    /// apart again where it sees their surroundings.
    fn dot<S: Simd>(simd: S, xs: &[Self], ys: &[Self]) -> Self;
}

/// Registers that are summed into side by side, so that none waits for itself.
const CHAINS: usize = 4;

macro_rules! dot {
    ($split:ident, $splat:ident, $mul_add:ident, $add:ident, $total:ident) => {
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
            let total = simd.$total(simd.$add(simd.$add(a, b), simd.$add(c, d)));
            let last = last_xs.iter().zip(last_ys);
            last.fold(total, |total, (x, y)| total + x * y)
        }
    };
}

impl Wide for f64 {
    dot!(as_simd_f64s, splat_f64s, mul_add_f64s, add_f64s, reduce_sum_f64s);

    fn of(x: f64) -> Self {
        x
    }
    fn exponential(self) -> Self {
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
    dot!(as_simd_f32s, splat_f32s, mul_add_f32s, add_f32s, reduce_sum_f32s);

    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn exponential(self) -> Self {
        let (excess, [half, other_half]) = reduced(self);
        (1.0 + excess) * half * other_half
    }

    /// `m / (m + 2)` with `m = e^2|x| − 1`, which loses nothing near 0.
    #[inline(always)]
    fn tangent(self) -> Self {
        // Beyond, the result is 1 to the last digit.
        let (excess, [half, other_half]) = reduced(2.0 * below(self.abs(), 10.0));
        let scale = half * other_half;
        let m = excess.mul_add(scale, scale - 1.0);
        (m / (m + 2.0)).copysign(self)
    }

    /// The tail `Φ(−|x|)` is `e^(−x²/2)` times a smooth function, here a polynomial in `(|x| − 3) / (|x| + 3)`, so that it
    /// keeps its digits where `1 + erf` cancels.
    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        // Beyond, the tail is 0.
        let a = below(self.abs(), 20.0);
        let square = a * a;
        let lost = a.mul_add(a, -square);
        let (excess, [half, other_half]) = reduced(-0.5 * square);
        let bell = (1.0 + excess) * half * other_half;
        let bell = (-0.5 * lost).mul_add(bell, bell);
        let inverse = 1.0 / (a + 3.0);
        let u = (a - 3.0) * inverse;
        let smooth = TAIL.iter().rev().fold(0.0f32, |sum, &c| sum.mul_add(u, c));
        let tail = smooth * inverse * bell;
        let distribution = if self < 0.0 { tail } else { 1.0 - tail };
        (distribution, bell * (1.0 / (2.0 * PI).sqrt()) as f32)
    }
}

/// `x`, but no more than a bound; NaN stays.
#[inline(always)]
fn below(x: f32, most: f32) -> f32 {
    if x > most { most } else { x }
}

/// `e^x` as `(1 + excess) · s · t`: `excess` is `e^r − 1` for the `r` that is left of `x` without a multiple `n` of ln 2,
/// and `s · t` is `2^n` in two factors, so that subnormal results come out rounded once.
#[inline(always)]
fn reduced(x: f32) -> (f32, [f32; 2]) {
    /// Adding it leaves the nearest whole number in the lowest bits.
    const WHOLE: f32 = 12_582_912.0; // 1.5 · 2^23
    // ln 2 in two parts, the first with zeros at its end: `n` times it is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    // Beyond, the result is infinite or 0.
    let x = if x < -104.0 { -104.0 } else { below(x, 89.0) };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, WHOLE);
    let n = shifted - WHOLE;
    let r = n.mul_add(-LN_2[1], n.mul_add(-LN_2[0], x));
    let tail = EXCESS.iter().rev().fold(0.0f32, |sum, &c| sum.mul_add(r, c));
    let excess = (r * r).mul_add(tail, r);
    let n = (shifted.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    (excess, [power(half), power(n.wrapping_sub(half))])
}

/// `(e^r − 1 − r) / r²` for `|r| ≤ ln 2 / 2`: the Taylor series, which is right to 6·10⁻⁹ of `e^r` there.
const EXCESS: [f32; 6] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
];

/// `Φ(−a) · e^(a²/2) · (a + 3)` in powers of `(a − 3) / (a + 3)`, for `a` from 0 to 20: interpolated at the Chebyshev
/// nodes, right to 4·10⁻⁹ of itself.
const TAIL: [f32; 11] = [
    0.729_083_7,
    -0.509_332,
    0.230_017_7,
    -0.047_262_83,
    -0.010_462_601,
    0.006_970_089_4,
    0.001_025_296_8,
    -0.001_034_146_9,
    -2.459_444_6e-4,
    1.323_763_5e-4,
    5.536_116_5e-5,
];

/// Terms that are summed side by side, so that a sum fills the registers and does not wait for itself.
const LANES: usize = 32;

/// Adds up `term(x, y)` over two rows of one length.
#[inline(always)]
pub(super) fn sum<W: Wide>(xs: &[W], ys: &[W], term: impl Fn(W, W) -> W) -> W {
    let mut sums = [W::zero(); LANES];
    let ((blocks, rest), (other_blocks, other_rest)) = (xs.as_chunks::<LANES>(), ys.as_chunks::<LANES>());
    for (xs, ys) in blocks.iter().zip(other_blocks) {
        for ((sum, &x), &y) in sums.iter_mut().zip(xs).zip(ys) {
            *sum = *sum + term(x, y);
        }
    }
    for ((sum, &x), &y) in sums.iter_mut().zip(rest).zip(other_rest) {
        *sum = *sum + term(x, y);
    }
    sums.into_iter().fold(W::zero(), |a, b| a + b)
}

/// The largest of a row.
#[inline(always)]
pub(super) fn largest<W: Wide>(row: &[W]) -> W {
    let larger = |a: W, b: W| if b > a { b } else { a };
    let mut most = [W::neg_infinity(); LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for (most, &x) in most.iter_mut().zip(block) {
            *most = larger(*most, x);
        }
    }
    for (most, &x) in most.iter_mut().zip(rest) {
        *most = larger(*most, x);
    }
    most.into_iter().fold(W::neg_infinity(), larger)
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};

    use super::*;

    /// A row times itself.
    struct Dot<'a>(&'a [f64]);

    impl WithSimd for Dot<'_> {
        type Output = f64;

        fn with_simd<S: Simd>(self, simd: S) -> f64 {
            f64::dot(simd, self.0, self.0)
        }
    }

    /// The largest error of a function in units in the last place of f32, over all `step`th f32 numbers within a bound, of
    /// both signs.
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
        let exponential = worst(88.7, f32::exponential, f64::exp);
        assert!(exponential < 1.2, "{exponential}");
        let tangent = worst(100.0, f32::tangent, f64::tanh);
        assert!(tangent < 3.0, "{tangent}");
        let distribution = worst(13.0, |x| x.normal().0, |x| x.normal().0);
        assert!(distribution < 5.0, "{distribution}");
        let density = worst(13.0, |x| x.normal().1, |x| x.normal().1);
        assert!(density < 3.0, "{density}");
    }

    #[test]
    fn what_is_not_finite_or_out_of_range_ends_as_it_should() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(
            [inf, -inf, 1e30, -1e30].map(f32::exponential),
            [inf, 0.0, inf, 0.0]
        );
        assert_eq!([inf, -inf, 1e30, -1e30].map(f32::tangent), [1.0, -1.0, 1.0, -1.0]);
        assert_eq!([inf, -inf].map(|x| x.normal()), [(1.0, 0.0), (0.0, 0.0)]);
        assert!(nan.exponential().is_nan() && nan.tangent().is_nan() && nan.normal().0.is_nan());
        let smallest = f32::from_bits(1);
        assert_eq!((-103.0f32).exponential(), smallest, "a subnormal result");
        assert_eq!(smallest.tangent(), smallest);
        assert_eq!((-0.0f32).tangent().to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn sums_and_maxima_of_any_length_are_those_of_loops() {
        for n in [0, 1, LANES - 1, LANES, 3 * LANES + 5] {
            let row: Vec<f64> = (0..n).map(|i| ((i * 37) % 11) as f64 - 5.0).collect();
            let wanted: f64 = row.iter().map(|x| x * x + x).sum();
            assert_eq!(sum(&row, &row, |x, y| x * y + x), wanted);
            assert_eq!(
                Arch::new().dispatch(Dot(&row)),
                row.iter().map(|x| x * x).sum::<f64>()
            );
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(largest(&row), most);
        }
    }
}
