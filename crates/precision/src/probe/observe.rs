//! Infers the arithmetic of a matmul from its results on chosen operands. The matmul is a function argument, so this module
//! does not depend on a backend.

use mantissa_core::Format;

/// Rows and columns of the probe's square matrices: a multiple of the tile size of every kernel.
pub(super) const EDGE: usize = 128;

/// Rounding mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    NearestEven,
    /// To nearest, ties away from zero.
    NearestAway,
    /// To nearest, with another rule for ties.
    Nearest,
    /// Toward zero (truncation).
    TowardZero,
    /// Toward +∞.
    Up,
    /// Toward −∞.
    Down,
    /// Different modes for different orders of summation.
    Mixed,
}

impl Rounding {
    /// Returns the name used in the results of a run.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NearestEven => "to nearest even",
            Self::NearestAway => "to nearest, ties away",
            Self::Nearest => "to nearest",
            Self::TowardZero => "toward zero",
            Self::Up => "up",
            Self::Down => "down",
            Self::Mixed => "with mixed rounding",
        }
    }
}

/// Treatment of subnormal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnormals {
    /// True if subnormal operands are not flushed to zero.
    pub operands_kept: bool,
    /// True if subnormal results are not flushed to zero.
    pub results_kept: bool,
}

/// Arithmetic of a matmul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Significand bits of the operands, including the implicit bit: the minimum of the left and the right operand.
    pub operand_bits: u32,
    /// Exponent bits of the operands.
    pub exponent_bits: u32,
    /// Significand bits of the accumulator, measured by adding a small number to a large one. The minimum over the
    /// tested orders of summation.
    pub accumulator_bits: u32,
    /// True if products are not rounded before they are summed. Also true if the accumulator is too narrow to observe a rounding.
    pub exact_products: bool,
    /// Rounding of operands before the multiplication; `None` if they are not rounded.
    pub operand_rounding: Option<Rounding>,
    /// Rounding of sums; `None` if it could not be observed in any order of summation.
    pub sum_rounding: Option<Rounding>,
    /// Treatment of subnormal numbers.
    pub subnormals: Subnormals,
}

impl Observation {
    /// Combines two observations: returns the minimum of each number of bits, and exact products only if both observations have them.
    /// Rounding and subnormals are those of `self`.
    pub(super) fn narrowest(&self, other: &Self) -> Self {
        Self {
            operand_bits: self.operand_bits.min(other.operand_bits),
            exponent_bits: self.exponent_bits.min(other.exponent_bits),
            accumulator_bits: self.accumulator_bits.min(other.accumulator_bits),
            exact_products: self.exact_products && other.exact_products,
            ..self.clone()
        }
    }

    /// Returns the widest format whose significand fits into the accumulator. If products are rounded before they are summed,
    /// this is at most the format of the operands, because the bits that a wider accumulator would keep are already lost.
    pub fn accumulator(&self) -> String {
        let bits = if self.exact_products {
            self.accumulator_bits
        } else {
            self.accumulator_bits.min(self.operand_bits)
        };
        [Format::F64, Format::F32, Format::F16, Format::Bf16]
            .iter()
            .find(|format| bits >= format.significand_bits())
            .map_or_else(|| format!("{bits} bits"), |format| format.name().to_owned())
    }

    /// Describes the rounding and the treatment of subnormals, for the results of a run.
    pub fn rounding(&self) -> String {
        let mut parts = Vec::new();
        if let Some(rounding) = self.operand_rounding {
            parts.push(format!("operands {}", rounding.name()));
        }
        if let Some(rounding) = self.sum_rounding {
            parts.push(format!("sums {}", rounding.name()));
        }
        if !self.exact_products {
            parts.push("products rounded before the sum".to_owned());
        }
        parts.push(
            match (self.subnormals.operands_kept, self.subnormals.results_kept) {
                (true, true) => "subnormals kept",
                (false, false) => "subnormals flushed",
                (false, true) => "subnormal operands flushed",
                (true, false) => "subnormal results flushed",
            }
            .to_owned(),
        );
        parts.join(", ")
    }
}

/// Terms of one dot product: index along the inner dimension, left factor, right factor.
pub(super) type Dot = Vec<(usize, f64, f64)>;

/// Function that multiplies a left matrix, stored row by row, with a right one stored column by column, both [`EDGE`] ×
/// [`EDGE`].
pub(super) type Multiply<'a> = dyn FnMut(Vec<f64>, Vec<f64>) -> Result<Vec<f64>, String> + 'a;

/// Infers the arithmetic of `multiply` for operands that are stored in `format`.
///
/// # Errors
/// Any error of `multiply`.
pub(super) fn observe(format: Format, multiply: &mut Multiply<'_>) -> Result<Observation, String> {
    let mut dots = |dots: &[Dot]| compute_dots(dots, multiply);
    let operand_bits = operand_bits(&mut dots)?;
    let accumulator_bits = accumulator_bits(&mut dots)?;
    let exponent_bits = exponent_bits(&mut dots)?;
    Ok(Observation {
        operand_bits,
        exponent_bits,
        accumulator_bits,
        exact_products: exact_products(operand_bits, accumulator_bits, &mut dots)?,
        operand_rounding: if operand_bits < format.significand_bits() {
            Some(operand_rounding(operand_bits, &mut dots)?)
        } else {
            None
        },
        sum_rounding: sum_rounding(accumulator_bits, &mut dots)?,
        subnormals: subnormals(exponent_bits, &mut dots)?,
    })
}

/// Computes dot products as the diagonal of a matmul: row `i` of the left matrix and column `i` of the right matrix contain
/// the terms of dot product `i`. The other elements of the result are ignored.
fn compute_dots(dots: &[Dot], multiply: &mut Multiply<'_>) -> Result<Vec<f64>, String> {
    let mut results = Vec::with_capacity(dots.len());
    for chunk in dots.chunks(EDGE) {
        let (mut lhs, mut rhs) = (vec![0.0; EDGE * EDGE], vec![0.0; EDGE * EDGE]);
        for (row, dot) in chunk.iter().enumerate() {
            for &(k, a, b) in dot {
                lhs[row * EDGE + k] = a;
                rhs[row * EDGE + k] = b;
            }
        }
        let product = multiply(lhs, rhs)?;
        results.extend((0..chunk.len()).map(|row| product[row * EDGE + row]));
    }
    Ok(results)
}

/// Function that computes dot products.
pub(super) type ComputeDots<'a> = dyn FnMut(&[Dot]) -> Result<Vec<f64>, String> + 'a;

/// Returns `2ⁿ`, exactly.
pub(super) fn power_of_two(n: i32) -> f64 {
    if n >= -1022 {
        f64::from_bits(((n + 1023) as u64) << 52)
    } else {
        f64::from_bits(1 << (n + 1074))
    }
}

/// Maximum number of fraction bits to test: those of f64.
const MAX_FRACTION_BITS: i32 = 52;

/// Returns the number of significand bits: the number of leading `true` values, plus one for the implicit bit.
pub(super) fn count_bits(survives: impl Iterator<Item = bool>) -> u32 {
    1 + survives.take_while(|survives| *survives).count() as u32
}

/// Determines the significand bits of the operands: `(1 + 2⁻ᵖ) · 1` is returned unchanged if the multiplier reads at least
/// `p` fraction bits.
fn operand_bits(run: &mut ComputeDots<'_>) -> Result<u32, String> {
    let value = |p: i32| 1.0 + power_of_two(-p);
    let left: Vec<Dot> = (1..=MAX_FRACTION_BITS)
        .map(|p| vec![(0, value(p), 1.0)])
        .collect();
    let right: Vec<Dot> = (1..=MAX_FRACTION_BITS)
        .map(|p| vec![(0, 1.0, value(p))])
        .collect();
    let (left, right) = (run(&left)?, run(&right)?);
    let bits = |results: Vec<f64>| {
        count_bits(
            (1..=MAX_FRACTION_BITS)
                .zip(results)
                .map(|(p, got)| got == value(p)),
        )
    };
    Ok(bits(left).min(bits(right)))
}

/// Determines the exponent bits: `2ᵉ · 2⁻ᵉ` is 1 if both factors are within the exponent range.
fn exponent_bits(run: &mut ComputeDots<'_>) -> Result<u32, String> {
    const EXPONENT_RANGES: [(u32, i32); 4] = [(11, 1000), (8, 100), (5, 14), (4, 6)];
    let dots = |e: i32| {
        vec![
            vec![(0, power_of_two(e), power_of_two(-e))],
            vec![(0, power_of_two(-e), power_of_two(e))],
        ]
    };
    for (bits, e) in EXPONENT_RANGES {
        if run(&dots(e))? == [1.0, 1.0] {
            return Ok(bits);
        }
    }
    Ok(0)
}

/// Positions of three terms of a sum along the inner dimension: a large number, a small number, and the negative of the large number. The
/// three are adjacent, or in neighbouring vectors, blocks or tiles, or in reverse order.
const POSITIONS: [[usize; 3]; 12] = [
    [0, 1, 2],
    [2, 1, 0],
    [0, 2, 4],
    [0, 4, 8],
    [0, 8, 16],
    [0, 16, 32],
    [0, 32, 64],
    [0, 64, 96],
    [96, 64, 0],
    [0, 63, 127],
    [127, 64, 0],
    [5, 70, 71],
];

/// Exponent of the large number of a sum. Every format can represent its two factors, and the exponent range below it is large enough for
/// the small number and the result.
const LARGE_EXPONENT: i32 = 14;

/// Returns the term `factor · 2ⁿ`. The power of two is split between both operands, so that they fit into narrow formats.
fn term(at: usize, factor: f64, n: i32) -> (usize, f64, f64) {
    let half = n.div_euclid(2);
    (at, factor * power_of_two(half), power_of_two(n - half))
}

/// Determines the accumulator bits. With `L = 2^LARGE_EXPONENT` and `s = 2^−q · L`, the sum `L + s − L` is `s` if the accumulator
/// represents `L + s`. Returns the minimum over all [`POSITIONS`].
fn accumulator_bits(run: &mut ComputeDots<'_>) -> Result<u32, String> {
    let mut min_bits = u32::MAX;
    for [large, small, back] in POSITIONS {
        let dots: Vec<Dot> = (1..=MAX_FRACTION_BITS)
            .map(|q| {
                vec![
                    term(large, 1.0, LARGE_EXPONENT),
                    term(small, 1.0, LARGE_EXPONENT - q),
                    term(back, -1.0, LARGE_EXPONENT),
                ]
            })
            .collect();
        let results = run(&dots)?;
        let survives = (1..=MAX_FRACTION_BITS)
            .zip(results)
            .map(|(q, got)| got == power_of_two(LARGE_EXPONENT - q));
        min_bits = min_bits.min(count_bits(survives));
    }
    Ok(min_bits)
}

/// Tests if products are exact. Let `u` be the unit in the last place of 1 in the format of the operands. Then `(1 + u)² − (1 + 2u)` is
/// `u²` if the product is not rounded to this format. Returns true if the accumulator is too narrow for this test.
fn exact_products(
    operand_bits: u32,
    accumulator_bits: u32,
    run: &mut ComputeDots<'_>,
) -> Result<bool, String> {
    if 2 * operand_bits > accumulator_bits {
        return Ok(true);
    }
    let u = power_of_two(1 - operand_bits as i32);
    let dots = [vec![(0, 1.0 + u, 1.0 + u), (1, -1.0 - 2.0 * u, 1.0)]];
    Ok(run(&dots)? == [u * u])
}

/// Determines the rounding of operands from `1 + ¾u`, `1 + ½u`, `1 + 1½u` and `−1 − ¾u`, where `u` is the unit in the last
/// place of 1.
pub(super) fn operand_rounding(bits: u32, run: &mut ComputeDots<'_>) -> Result<Rounding, String> {
    let u = power_of_two(1 - bits as i32);
    let dots: Vec<Dot> = [1.0 + 0.75 * u, -1.0 - 0.75 * u, 1.0 + 0.5 * u, 1.0 + 1.5 * u]
        .iter()
        .map(|x| vec![(0, *x, 1.0)])
        .collect();
    let got = run(&dots)?;
    let (up, down) = (got[0] == 1.0 + u, got[1] == -1.0 - u);
    Ok(rounding_mode(up, down, || {
        if got[2] == 1.0 && got[3] == 1.0 + 2.0 * u {
            Rounding::NearestEven
        } else if got[2] == 1.0 + u && got[3] == 1.0 + 2.0 * u {
            Rounding::NearestAway
        } else {
            Rounding::Nearest
        }
    }))
}

/// Returns the rounding mode. `positive_away` and `negative_away` are true if ¾ of a unit in the last place of a
/// positive and a negative number was rounded away from zero. `nearest` determines the rule for ties.
fn rounding_mode(positive_away: bool, negative_away: bool, nearest: impl FnOnce() -> Rounding) -> Rounding {
    match (positive_away, negative_away) {
        (true, true) => nearest(),
        (false, false) => Rounding::TowardZero,
        (true, false) => Rounding::Up,
        (false, true) => Rounding::Down,
    }
}

/// Determines the rounding of sums from `L + s − L`, where `s` is ¾ or ½ of a unit in the last place of `L`. A rounded result is zero or
/// one unit. Orders of summation that return `s` itself are skipped, because they do not round.
fn sum_rounding(bits: u32, run: &mut ComputeDots<'_>) -> Result<Option<Rounding>, String> {
    let last_place = LARGE_EXPONENT + 1 - bits as i32;
    let mut found: Option<Rounding> = None;
    for [large, small, back] in POSITIONS {
        let dot = |sign: f64, factor: f64, n: i32| {
            vec![
                term(large, sign, LARGE_EXPONENT),
                term(small, sign * factor, n),
                term(back, -sign, LARGE_EXPONENT),
            ]
        };
        let got = run(&[
            dot(1.0, 3.0, last_place - 2),
            dot(-1.0, 3.0, last_place - 2),
            dot(1.0, 1.0, last_place - 1),
        ])?;
        let unit = power_of_two(last_place);
        let rounded = |x: f64| x == 0.0 || x.abs() == unit;
        if !got.iter().copied().all(rounded) {
            continue;
        }
        let mode = rounding_mode(got[0] == unit, got[1] == -unit, || {
            if got[2] == 0.0 {
                Rounding::NearestEven
            } else {
                Rounding::NearestAway
            }
        });
        match found {
            None => found = Some(mode),
            Some(other) if other != mode => return Ok(Some(Rounding::Mixed)),
            Some(_) => {}
        }
    }
    Ok(found)
}

/// Tests if subnormal numbers are kept, with half of the smallest normal number. As an operand, this number is
/// multiplied by a large power of two. As a result, it is the product of two normal operands.
fn subnormals(exponent_bits: u32, run: &mut ComputeDots<'_>) -> Result<Subnormals, String> {
    let Some(smallest) = (exponent_bits > 1).then(|| 2 - (1i32 << (exponent_bits - 1))) else {
        return Ok(Subnormals {
            operands_kept: false,
            results_kept: false,
        });
    };
    let subnormal = smallest - 1;
    let scale = -subnormal * 3 / 4;
    let factors = (subnormal.div_euclid(2), subnormal - subnormal.div_euclid(2));
    let got = run(&[
        vec![(0, power_of_two(subnormal), power_of_two(scale))],
        vec![(0, power_of_two(scale), power_of_two(subnormal))],
        vec![(0, power_of_two(factors.0), power_of_two(factors.1))],
    ])?;
    Ok(Subnormals {
        operands_kept: got[..2] == [power_of_two(subnormal + scale); 2],
        results_kept: got[2] == power_of_two(subnormal),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference matmul: rounds operands to one format, and sums products in sequence in another.
    struct Reference {
        operand: fn(f64) -> f64,
        add: fn(f64, f64) -> f64,
        product: fn(f64) -> f64,
        output: fn(f64) -> f64,
    }

    impl Reference {
        fn observe(&self, stored: Format) -> Observation {
            let mut multiply = |lhs: Vec<f64>, rhs: Vec<f64>| {
                let store = |values: Vec<f64>| -> Vec<f64> {
                    values
                        .iter()
                        .map(|x| (self.operand)(stored.round(*x).value))
                        .collect()
                };
                let (lhs, rhs) = (store(lhs), store(rhs));
                let mut out = vec![f64::NAN; EDGE * EDGE];
                for row in 0..EDGE {
                    let mut sum = 0.0;
                    for k in 0..EDGE {
                        let product = (self.product)(lhs[row * EDGE + k] * rhs[row * EDGE + k]);
                        sum = (self.add)(sum, product);
                    }
                    out[row * EDGE + row] = (self.output)(sum);
                }
                Ok(out)
            };
            observe(stored, &mut multiply).unwrap()
        }
    }

    fn f32_sum(a: f64, b: f64) -> f64 {
        f64::from(a as f32 + b as f32)
    }

    fn as_f32(x: f64) -> f64 {
        f64::from(x as f32)
    }

    /// f32 matmul in which every operation is rounded once.
    const TRUE_F32: Reference = Reference {
        operand: |x| x,
        add: f32_sum,
        product: as_f32,
        output: |x| x,
    };

    /// Truncates an f32: sets its lowest `dropped` bits to zero.
    fn truncate(x: f64, dropped: u32) -> f64 {
        f64::from(f32::from_bits((x as f32).to_bits() >> dropped << dropped))
    }

    #[test]
    fn true_f32_is_detected() {
        let observed = TRUE_F32.observe(Format::F32);
        assert_eq!((observed.operand_bits, observed.exponent_bits), (24, 8));
        assert_eq!(observed.accumulator(), "f32");
        assert_eq!(observed.rounding(), "sums to nearest even, subnormals kept");
    }

    #[test]
    fn true_f64_is_detected() {
        let observed = Reference {
            add: |a, b| a + b,
            product: |x| x,
            ..TRUE_F32
        }
        .observe(Format::F64);
        assert_eq!((observed.operand_bits, observed.exponent_bits), (53, 11));
        assert_eq!(observed.accumulator(), "f64");
    }

    #[test]
    fn f16_operands_with_f32_sums_are_detected() {
        let observed = Reference {
            product: |x| x,
            output: |x| Format::F16.round(x).value,
            ..TRUE_F32
        }
        .observe(Format::F16);
        assert_eq!((observed.operand_bits, observed.exponent_bits), (11, 5));
        assert_eq!(
            (observed.accumulator().as_str(), observed.exact_products),
            ("f32", true)
        );
        assert_eq!(
            observed.subnormals,
            Subnormals {
                operands_kept: true,
                results_kept: true
            }
        );
    }

    #[test]
    fn tf32_operands_are_distinguished_from_f32() {
        let observed = Reference {
            operand: |x| Format::Tf32.round(x).value,
            ..TRUE_F32
        }
        .observe(Format::F32);
        assert_eq!((observed.operand_bits, observed.exponent_bits), (11, 8));
        assert_eq!(observed.operand_rounding, Some(Rounding::NearestEven));
        assert_eq!(observed.accumulator(), "f32");
    }

    #[test]
    fn f16_sums_are_distinguished_from_f32_sums() {
        let observed = Reference {
            add: |a, b| Format::F16.round(a + b).value,
            product: |x| x,
            ..TRUE_F32
        }
        .observe(Format::F16);
        assert_eq!(
            (observed.operand_bits, observed.accumulator().as_str()),
            (11, "f16")
        );
        assert_eq!(observed.sum_rounding, Some(Rounding::NearestEven));
    }

    #[test]
    fn rounded_products_count_as_a_narrow_accumulator() {
        let observed = Reference {
            product: |x| Format::Bf16.round(x).value,
            ..TRUE_F32
        }
        .observe(Format::Bf16);
        assert_eq!((observed.operand_bits, observed.accumulator_bits), (8, 24));
        assert!(!observed.exact_products);
        assert_eq!(observed.accumulator(), "bf16");
    }

    #[test]
    fn rounding_modes_are_distinguished() {
        let truncated = |x: f64| truncate(x, 13);
        let away = |x: f64| {
            let bits = (x as f32).to_bits();
            f64::from(f32::from_bits(bits.wrapping_add(1 << 12) >> 13 << 13))
        };
        let operands = |operand: fn(f64) -> f64| {
            Reference { operand, ..TRUE_F32 }
                .observe(Format::F32)
                .operand_rounding
        };
        assert_eq!(operands(truncated), Some(Rounding::TowardZero));
        assert_eq!(operands(away), Some(Rounding::NearestAway));
        assert_eq!(operands(|x| x), None);

        let truncating = Reference {
            add: |a, b| {
                let sum = a + b;
                let rounded = sum as f32;
                let too_far = f64::from(rounded).abs() > sum.abs();
                f64::from(if too_far {
                    f32::from_bits(rounded.to_bits() - 1)
                } else {
                    rounded
                })
            },
            ..TRUE_F32
        };
        let observed = truncating.observe(Format::F32);
        assert_eq!(
            (observed.accumulator().as_str(), observed.sum_rounding),
            ("f32", Some(Rounding::TowardZero))
        );
    }

    #[test]
    fn flushed_subnormal_operands_and_results_are_detected() {
        let flush = |x: f64| {
            if x.abs() < f64::from(f32::MIN_POSITIVE) {
                0.0
            } else {
                x
            }
        };
        let describe = |operand: fn(f64) -> f64, output: fn(f64) -> f64| {
            Reference {
                operand,
                output,
                ..TRUE_F32
            }
            .observe(Format::F32)
            .rounding()
        };
        assert!(describe(flush, |x| x).contains("subnormal operands flushed"));
        assert!(describe(|x| x, flush).contains("subnormal results flushed"));
        assert!(describe(flush, flush).contains("subnormals flushed"));
    }

    #[test]
    fn narrowest_combines_the_minimum_of_two_observations() {
        let exact = TRUE_F32.observe(Format::F32);
        let narrow = Reference {
            operand: |x| truncate(x, 13),
            ..TRUE_F32
        }
        .observe(Format::F32);
        assert_eq!(exact.narrowest(&narrow).operand_bits, 11);
        assert_eq!(narrow.narrowest(&exact).operand_bits, 11);
    }
}
