//! Numeric error of a result, and its sources.
//!
//! The reference is computed from the stored inputs in f64 (for f64 inputs: in twice that precision), so the cost of storing them does not count
//! as error. The error has three sources, each measured separately: the operands are rounded to the format of the multiplier, the sum is rounded
//! while it is accumulated, and the result is rounded to its format.

use mantissa_core::{Format, KernelKind, Series, SeriesName, Setting};
use rayon::prelude::*;

/// Number of rows that are compared. Computing the reference for all rows of a large result would take longer than all measurements.
const COMPARED_ROWS: usize = 256;
/// Number of compared rows for f64 inputs, whose reference is computed in twice the precision of f64.
const COMPARED_ROWS_OF_F64: usize = 32;

/// Difference between a result and its reference. Each error is a Frobenius norm divided by that of the reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultError {
    /// Total error.
    pub(crate) relative: f64,
    /// Error from rounding the operands: the error of an exact matmul of the rounded operands.
    pub(crate) quantisation: f64,
    /// Error from rounding an exact result to the format of the output.
    pub(crate) rounding: f64,
    /// Remaining error, from the accumulation.
    pub(crate) accumulation: f64,
    /// Sum of `|result| - |reference|`, divided by the sum of `|reference|`. Negative if results are too small, as after truncation.
    pub(crate) bias: f64,
    /// Largest distance in units in the last place of the reference, in the output's format.
    pub(crate) max_ulp: f64,
    /// Histogram of distances with the upper edges 0.5, 1, 2, 4, … units in the last place.
    pub(crate) ulps: Vec<u64>,
    /// True if every compared result is finite.
    pub(crate) finite: bool,
}

impl ResultError {
    /// Returns the histogram of distances as a series: counts over the upper edges of the bins.
    pub(crate) fn series(&self) -> Series {
        let mut series = Series::new(SeriesName::UlpDistance);
        for (bin, count) in self.ulps.iter().enumerate() {
            series.push(edge(bin), *count as f64);
        }
        series
    }
}

/// Returns the upper edge of a bin of the histogram, in ULP.
fn edge(bin: usize) -> f64 {
    0.5 * (bin as f64).exp2()
}

/// Returns the bin of a distance. The last bin contains all larger distances.
fn bin(ulps: f64) -> usize {
    const LAST: f64 = 1_023.0; // the edge of the next bin overflows f64
    (ulps / 0.5).log2().ceil().clamp(0.0, LAST) as usize
}

/// Formats of an operation: of the stored inputs, of the multiplier's operands, and of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formats {
    pub(crate) stored: Format,
    pub(crate) operand: Format,
    pub(crate) output: Format,
}

impl Formats {
    /// Returns the formats of a setting. A kernel without matmuls reads its operands as stored.
    pub(crate) fn of(setting: &Setting, kind: KernelKind) -> Self {
        let computed = setting.precision().compute();
        if !kind.multiplies() {
            let stored = setting.precision().parameters();
            return Self {
                stored,
                operand: stored,
                output: computed,
            };
        }
        Self {
            stored: setting.precision().parameters(),
            operand: match computed {
                Format::F32 => setting.matmul().operand(),
                other => other,
            },
            output: computed,
        }
    }

    /// Returns true if operands are rounded before the multiplication.
    pub(crate) fn round_operands(&self) -> bool {
        self.operand.significand_bits() < self.stored.significand_bits()
    }

    /// Returns true if f64 cannot be the reference, because the inputs themselves are f64.
    pub(crate) fn needs_more_than_f64(&self) -> bool {
        self.stored == Format::F64
    }
}

/// Contribution of one row to the sums.
#[derive(Debug, Clone, Default)]
struct Part {
    error: f64,
    quantisation: f64,
    rounding: f64,
    accumulation: f64,
    norm: f64,
    excess: f64,
    magnitude: f64,
    max_ulp: f64,
    ulps: Vec<u64>,
    infinite: bool,
}

impl Part {
    fn and(mut self, other: &Self) -> Self {
        self.error += other.error;
        self.quantisation += other.quantisation;
        self.rounding += other.rounding;
        self.accumulation += other.accumulation;
        self.norm += other.norm;
        self.excess += other.excess;
        self.magnitude += other.magnitude;
        self.max_ulp = self.max_ulp.max(other.max_ulp);
        if self.ulps.len() < other.ulps.len() {
            self.ulps.resize(other.ulps.len(), 0);
        }
        self.ulps.iter_mut().zip(&other.ulps).for_each(|(a, b)| *a += b);
        self.infinite |= other.infinite;
        self
    }
}

/// Compares evenly spaced rows of a result `[rows, columns]` with expected rows. For a row, `wanted` returns the row computed from the stored
/// inputs, and the row computed from the rounded operands.
pub(crate) fn compare(
    result: &[f64],
    [rows, columns]: [usize; 2],
    formats: Formats,
    wanted: impl Fn(usize) -> (Vec<f64>, Vec<f64>) + Sync,
) -> ResultError {
    let count = rows.min(match formats.needs_more_than_f64() {
        true => COMPARED_ROWS_OF_F64,
        false => COMPARED_ROWS,
    });
    let rows: Vec<usize> = (0..count).map(|row| row * rows / count).collect();
    // Sum the rows in order, so that the result does not depend on the number of threads.
    let parts: Vec<Part> = rows
        .par_iter()
        .map(|&row| {
            let (reference, of_rounded) = wanted(row);
            let got = &result[row * columns..][..columns];
            part(got, &reference, &of_rounded, formats.output)
        })
        .collect();
    let all = parts.iter().fold(Part::default(), Part::and);
    let relative = |sum: f64| (sum / all.norm).sqrt();
    ResultError {
        relative: relative(all.error),
        quantisation: relative(all.quantisation),
        rounding: relative(all.rounding),
        accumulation: relative(all.accumulation),
        bias: all.excess / all.magnitude,
        max_ulp: all.max_ulp,
        ulps: all.ulps,
        finite: !all.infinite,
    }
}

/// Rounds values to a format.
pub(crate) fn rounded(values: &[f64], format: Format) -> Vec<f64> {
    values.iter().map(|x| format.round(*x).value).collect()
}

fn part(got: &[f64], reference: &[f64], of_rounded: &[f64], output: Format) -> Part {
    let mut part = Part::default();
    for ((&got, &want), &seen) in got.iter().zip(reference).zip(of_rounded) {
        if !got.is_finite() {
            part.infinite = true;
            continue;
        }
        let out = output.round(seen).value;
        part.error += (got - want).powi(2);
        part.quantisation += (seen - want).powi(2);
        part.rounding += (out - seen).powi(2);
        part.accumulation += (got - out).powi(2);
        part.norm += want * want;
        part.excess += got.abs() - want.abs();
        part.magnitude += want.abs();
        let ulps = (got - want).abs() / output.ulp(want);
        part.max_ulp = part.max_ulp.max(ulps);
        let bin = bin(ulps);
        if part.ulps.len() <= bin {
            part.ulps.resize(bin + 1, 0);
        }
        part.ulps[bin] += 1;
    }
    part
}

/// Multiplies a row by a matrix `[lhs.len(), n]`, in f64 or in about twice its precision (compensated dot product of Ogita, Rump and Oishi).
pub(crate) fn exact(lhs: &[f64], rhs: &[f64], n: usize, compensated: bool) -> Vec<f64> {
    let mut sums = vec![0.0; n];
    if !compensated {
        for (a, row) in lhs.iter().zip(rhs.chunks_exact(n)) {
            sums.iter_mut().zip(row).for_each(|(sum, b)| *sum += a * b);
        }
        return sums;
    }
    let mut lost = vec![0.0; n];
    for (a, row) in lhs.iter().zip(rhs.chunks_exact(n)) {
        for ((sum, lost), b) in sums.iter_mut().zip(&mut lost).zip(row) {
            let product = a * b;
            let of_product = a.mul_add(*b, -product);
            let next = *sum + product;
            let moved = next - *sum;
            *lost += (*sum - (next - moved)) + (product - moved) + of_product;
            *sum = next;
        }
    }
    sums.iter().zip(lost).map(|(sum, lost)| sum + lost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 4] = [1.0, 2.0, 3.0, 4.0];
    /// Compares one row of results with the expected row.
    fn of_row(got: &[f64], reference: &[f64], seen: &[f64], formats: Formats) -> ResultError {
        compare(got, [1, got.len()], formats, |_| {
            (reference.to_vec(), seen.to_vec())
        })
    }

    fn in_f32(operand: Format) -> Formats {
        Formats {
            stored: Format::F32,
            operand,
            output: Format::F32,
        }
    }

    #[test]
    fn infinite_distances_have_a_bin_with_a_finite_edge() {
        assert!(edge(bin(f64::INFINITY)).is_finite());
        assert!(edge(bin(1e300)) >= 1e300 / 2.0);
        assert_eq!(
            [bin(0.0), bin(0.5), bin(0.6), bin(1.0), bin(3.0)],
            [0, 0, 1, 1, 3]
        );
    }

    #[test]
    fn the_error_of_a_perturbed_product_is_the_perturbation() {
        let formats = in_f32(Format::F32);
        let exact = of_row(&VALUES, &VALUES, &VALUES, formats);
        assert_eq!((exact.relative, exact.max_ulp, exact.finite), (0.0, 0.0, true));
        assert_eq!(exact.ulps, [4]);

        let mut off = VALUES;
        off[3] += 3.0 * Format::F32.ulp(4.0);
        let error = of_row(&off, &VALUES, &VALUES, formats);
        assert_eq!((error.max_ulp, error.ulps.as_slice()), (3.0, &[3, 0, 0, 1][..]));
        let expected = 3.0 * Format::F32.ulp(4.0) / 30f64.sqrt();
        assert!((error.relative - expected).abs() < 1e-20);
        assert_eq!((error.accumulation, error.quantisation), (error.relative, 0.0));
        assert!(error.bias > 0.0);
        assert!(!of_row(&[f64::NAN; 4], &VALUES, &VALUES, formats).finite);
    }

    #[test]
    fn each_error_source_is_measured_separately() {
        // 1 + 2⁻⁹ is 1 in bf16, so the whole error comes from the operand.
        let x = 1.0 + 2f64.powi(-9);
        let error = of_row(&[1.0], &[x], &[1.0], in_f32(Format::Bf16));
        assert_eq!((error.quantisation, error.accumulation), (2f64.powi(-9) / x, 0.0));
        // A result that was truncated to f16 instead of rounded: the error of the last digit counts as accumulation error.
        let f16_output = Formats {
            stored: Format::F32,
            operand: Format::F32,
            output: Format::F16,
        };
        let x = 1.0 + 0.75 * Format::F16.epsilon();
        let error = of_row(&[1.0], &[x], &[x], f16_output);
        assert_eq!(error.rounding, 0.25 * Format::F16.epsilon() / x);
        assert_eq!(error.accumulation, Format::F16.epsilon() / x);
        assert!(error.bias < 0.0);
    }

    #[test]
    fn the_compensated_reference_is_more_precise_than_f64() {
        // 1 + 2⁻⁶⁰ − 1.
        let (lhs, rhs) = ([1.0, 1.0, 1.0, 0.0], [1.0, 2f64.powi(-60), -1.0, 0.0]);
        let column = |values: [f64; 4]| {
            values
                .iter()
                .flat_map(|x| [*x, 0.0, 0.0, 0.0])
                .collect::<Vec<_>>()
        };
        assert_eq!(exact(&lhs, &column(rhs), 4, false)[0], 0.0);
        assert_eq!(exact(&lhs, &column(rhs), 4, true)[0], 2f64.powi(-60));
    }
}
