//! Infers the arithmetic of attention from its results on chosen inputs. The attention is a function argument, so this
//! module does not depend on a backend.
//!
//! The output depends on queries and keys only through the softmax. The measurements use three kinds of heads:
//!
//! - One key has all the attention weight. The output is the value of this key as the kernel reads it.
//! - Two groups of keys share the weight. The score of the first group is 4 if the kernel keeps the tested bit, otherwise 0. The output is
//!   the weight of the first group.
//! - All weights are equal. The output is the mean of the values.

use mantissa_core::Format;

use super::observe::{Observation, Subnormals, count_bits, operand_rounding, power_of_two};

/// Positions of a sequence: a multiple of the tile size of every kernel.
pub(super) const SEQUENCE: usize = 64;
/// Width of a head: a multiple of the tile size of every kernel.
pub(super) const WIDTH: usize = 64;

/// Factor of the scores: `1 / √`[`WIDTH`].
const SCALE: f64 = 0.125;

/// One head over one sequence with identical queries.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) query: Vec<f64>,
    /// `[SEQUENCE, WIDTH]`.
    pub(super) keys: Vec<f64>,
    /// `[SEQUENCE, WIDTH]`.
    pub(super) values: Vec<f64>,
}

/// Function that computes attention: `WIDTH` output values per head.
pub(super) type Attend<'a> = dyn FnMut(&[Head]) -> Result<Vec<f64>, String> + 'a;

impl Head {
    /// Returns a head with identical keys and zero values.
    fn blank() -> Self {
        Self {
            query: vec![0.0; WIDTH],
            keys: vec![0.0; SEQUENCE * WIDTH],
            values: vec![0.0; SEQUENCE * WIDTH],
        }
    }

    /// Returns a head whose first key has all the weight: the scores of all other keys are lower by 320, and `e⁻³²⁰` is negligible
    /// compared with 1 in every format.
    fn with_one_key(values: impl Fn(usize) -> f64) -> Self {
        let mut head = Self::blank();
        head.query[WIDTH - 1] = 16.0;
        for (position, key) in head.keys.chunks_exact_mut(WIDTH).enumerate() {
            key[WIDTH - 1] = if position == 0 { 80.0 } else { -80.0 };
        }
        (0..WIDTH).for_each(|column| head.values[column] = values(column));
        head
    }

    /// Returns a head in which the score of each key of the first half is the sum of `products`, and the score of all other keys is 0. The
    /// output is the total attention weight of the first half.
    fn with_two_groups(products: &[(usize, f64, f64)]) -> Self {
        let mut head = Self::blank();
        for &(column, query, key) in products {
            head.query[column] = query;
            for position in 0..SEQUENCE / 2 {
                head.keys[position * WIDTH + column] = key;
            }
        }
        head.values[..SEQUENCE / 2 * WIDTH].fill(1.0);
        head
    }

    /// Returns a head with equal weights and three nonzero values. The output is the sum of these values divided by [`SEQUENCE`].
    fn with_sum(positions: [usize; 3], values: impl Fn(usize) -> [f64; 3]) -> Self {
        let mut head = Self::blank();
        for column in 0..WIDTH {
            for (position, value) in positions.iter().zip(values(column)) {
                head.values[position * WIDTH + column] = value;
            }
        }
        head
    }
}

/// Positions of a large number, a small number and the negative of the large number in a sum of 64 terms.
const POSITIONS: [[usize; 3]; 8] = [
    [0, 1, 2],
    [2, 1, 0],
    [0, 4, 8],
    [0, 8, 16],
    [0, 16, 32],
    [48, 32, 0],
    [0, 31, 63],
    [63, 32, 0],
];

/// Exponent of the large number in a sum of weighted values.
const LARGE_EXPONENT: i32 = 14;

/// Splits `2ⁿ` into two factors of similar magnitude.
fn factors(n: i32) -> (f64, f64) {
    (power_of_two(n.div_euclid(2)), power_of_two(n - n.div_euclid(2)))
}

/// Exponent of the unscaled score that indicates a kept bit: `2⁵ · SCALE` = 4.
const SCORE_EXPONENT: i32 = 5;

/// Infers the arithmetic of `attend` for inputs that are stored in `format`.
///
/// # Errors
/// Any error of `attend`.
pub(super) fn observe(format: Format, attend: &mut Attend<'_>) -> Result<Observation, String> {
    debug_assert_eq!(power_of_two(SCORE_EXPONENT) * SCALE, 4.0);
    let fraction_bits = format.significand_bits() as i32 - 1;
    let operand_bits = value_bits(fraction_bits, attend)?.min(score_bits(fraction_bits, attend)?);
    // The small numbers of the sums must be within the exponent range of the inputs.
    let sum_fraction_bits = if format == Format::F16 { 25 } else { 52 };
    let accumulator_bits =
        value_sum_bits(sum_fraction_bits, attend)?.min(score_sum_bits(sum_fraction_bits, attend)?);
    let exponent_bits = exponent_bits(attend)?;
    // All the weight is on the first key, so each output is a value multiplied by 1.
    let mut run = |dots: &[Vec<(usize, f64, f64)>]| -> Result<Vec<f64>, String> {
        let outputs = attend(&[Head::with_one_key(|column| {
            dots.get(column).map_or(0.0, |dot| dot[0].1 * dot[0].2)
        })])?;
        Ok(outputs[..dots.len()].to_vec())
    };
    let operand_rounding = if operand_bits < format.significand_bits() {
        Some(operand_rounding(operand_bits, &mut run)?)
    } else {
        None
    };
    let subnormal = power_of_two(1 - (1i32 << (exponent_bits.max(2) - 1)));
    let is_kept = run(&[vec![(0, subnormal, 1.0)]])? == [subnormal];
    Ok(Observation {
        operand_bits,
        exponent_bits,
        accumulator_bits,
        exact_products: true,
        operand_rounding,
        sum_rounding: None,
        subnormals: Subnormals {
            operands_kept: is_kept,
            results_kept: is_kept,
        },
    })
}

/// Counts the significand bits of values: `1 + 2⁻ᵖ` is returned unchanged if the kernel reads at least `p` fraction bits of a value.
fn value_bits(fraction_bits: i32, attend: &mut Attend<'_>) -> Result<u32, String> {
    let value = |column: usize| 1.0 + power_of_two(-(column as i32 + 1));
    let outputs = attend(&[Head::with_one_key(value)])?;
    Ok(count_bits(
        (0..fraction_bits as usize).map(|column| outputs[column] == value(column)),
    ))
}

/// Counts the significand bits of queries and keys. With `L = 2^(p + SCORE_EXPONENT)`, the unscaled score `(1 + 2⁻ᵖ) · L − L` is
/// `2^SCORE_EXPONENT` if the kernel reads at least `p` fraction bits.
fn score_bits(fraction_bits: i32, attend: &mut Attend<'_>) -> Result<u32, String> {
    let head = |p: i32, in_key: bool| {
        let (a, b) = factors(p + SCORE_EXPONENT);
        let factor = 1.0 + power_of_two(-p);
        let (query, key) = if in_key { (a, b * factor) } else { (a * factor, b) };
        Head::with_two_groups(&[(0, query, key), (1, a, -b)])
    };
    let mut min_bits = u32::MAX;
    for in_key in [false, true] {
        let heads: Vec<Head> = (1..=fraction_bits).map(|p| head(p, in_key)).collect();
        min_bits = min_bits.min(surviving_bits(&attend(&heads)?));
    }
    Ok(min_bits)
}

/// Counts the accumulator bits of the scores. With `s = 2^SCORE_EXPONENT` and `L = 2^q · s`, the unscaled score `L + s − L` is `s` if the
/// accumulator represents `L + s`. Returns the minimum over all [`POSITIONS`].
fn score_sum_bits(fraction_bits: i32, attend: &mut Attend<'_>) -> Result<u32, String> {
    let mut min_bits = u32::MAX;
    for [large, small, back] in POSITIONS {
        let head = |q: i32| {
            let ((a, b), (c, d)) = (factors(q + SCORE_EXPONENT), factors(SCORE_EXPONENT));
            Head::with_two_groups(&[(large, a, b), (small, c, d), (back, a, -b)])
        };
        let heads: Vec<Head> = (1..=fraction_bits).map(head).collect();
        min_bits = min_bits.min(surviving_bits(&attend(&heads)?));
    }
    Ok(min_bits)
}

/// Counts the significand bits that the kernel keeps: one head tests one bit. The bit is kept if nearly all the weight of the head is in
/// the first group.
fn surviving_bits(outputs: &[f64]) -> u32 {
    count_bits(outputs.chunks_exact(WIDTH).map(|head| head[0] > 0.9))
}

/// Counts the accumulator bits of the sum of weighted values, like [`score_sum_bits`].
fn value_sum_bits(fraction_bits: i32, attend: &mut Attend<'_>) -> Result<u32, String> {
    let small = |column: usize| power_of_two(LARGE_EXPONENT - 1 - column as i32);
    let heads = POSITIONS.map(|positions| {
        Head::with_sum(positions, |column| {
            [
                power_of_two(LARGE_EXPONENT),
                small(column),
                -power_of_two(LARGE_EXPONENT),
            ]
        })
    });
    let outputs = attend(&heads)?;
    let bits_of_head = |head: &[f64]| {
        count_bits((0..fraction_bits as usize).map(|column| head[column] == small(column) / SEQUENCE as f64))
    };
    Ok(outputs.chunks_exact(WIDTH).map(bits_of_head).min().unwrap_or(0))
}

/// Determines the exponent bits: `2ᵉ` and `2⁻ᵉ` are returned unchanged if both are within the exponent range.
fn exponent_bits(attend: &mut Attend<'_>) -> Result<u32, String> {
    const EXPONENT_RANGES: [(u32, i32); 4] = [(11, 1000), (8, 100), (5, 14), (4, 6)];
    for (bits, e) in EXPONENT_RANGES {
        let outputs = attend(&[Head::with_one_key(|column| {
            if column == 0 {
                power_of_two(e)
            } else {
                power_of_two(-e)
            }
        })])?;
        if outputs[..2] == [power_of_two(e), power_of_two(-e)] {
            return Ok(bits);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rounding;

    /// Computes attention as a reference: rounds inputs to one format and sums to another; the softmax is exact.
    fn reference(operand: Format, sums: Format) -> impl FnMut(&[Head]) -> Result<Vec<f64>, String> {
        move |heads| {
            let round = |x: f64| operand.round(x).value;
            let add = |sum: f64, term: f64| sums.round(sum + term).value;
            let mut out = vec![];
            for head in heads {
                let score = |key: &[f64]| {
                    let terms = head.query.iter().zip(key).map(|(q, k)| round(*q) * round(*k));
                    terms.fold(0.0, add) * SCALE
                };
                let scores: Vec<f64> = head.keys.chunks_exact(WIDTH).map(score).collect();
                let max = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for column in 0..WIDTH {
                    let values = head.values.iter().skip(column).step_by(WIDTH);
                    let terms = weights
                        .iter()
                        .zip(values)
                        .map(|(weight, value)| round(*weight) * round(*value));
                    out.push(terms.fold(0.0, add) / sum);
                }
            }
            Ok(out)
        }
    }

    fn observe_reference(stored: Format, operand: Format, sums: Format) -> Observation {
        observe(stored, &mut reference(operand, sums)).unwrap()
    }

    #[test]
    fn f16_tiles_for_f32_inputs_are_detected() {
        let observed = observe_reference(Format::F32, Format::F16, Format::F32);
        assert_eq!((observed.operand_bits, observed.exponent_bits), (11, 5));
        assert_eq!(observed.accumulator(), "f32");
        assert_eq!(observed.operand_rounding, Some(Rounding::NearestEven));
        assert!(observed.subnormals.operands_kept);
    }

    #[test]
    fn true_formats_are_detected() {
        for format in [Format::F64, Format::F32] {
            let observed = observe_reference(format, format, format);
            assert_eq!(observed.operand_bits, format.significand_bits(), "{format}");
            assert_eq!(observed.accumulator(), format.name());
            assert_eq!(observed.operand_rounding, None);
        }
        let bf16 = observe_reference(Format::Bf16, Format::Bf16, Format::F32);
        assert_eq!((bf16.operand_bits, bf16.exponent_bits), (8, 8));
    }

    #[test]
    fn f16_sums_are_distinguished_from_f32() {
        assert_eq!(
            observe_reference(Format::F16, Format::F16, Format::F16).accumulator(),
            "f16"
        );
        assert_eq!(
            observe_reference(Format::F16, Format::F16, Format::F32).accumulator(),
            "f32"
        );
        assert_eq!(
            observe_reference(Format::Bf16, Format::Bf16, Format::F32).accumulator(),
            "f32"
        );
        assert_ne!(
            observe_reference(Format::F32, Format::F32, Format::F16).accumulator(),
            "f32"
        );
    }
}
