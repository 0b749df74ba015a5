//! Numeric error of a result, and its sources.
//!
//! The reference is computed from the stored inputs in f64, or in twice the precision of f64 for f64 inputs. The error therefore excludes rounding
//! the inputs to their storage format. It has three sources, each measured separately: rounding the operands to the format of the multiplier,
//! rounding during accumulation, and rounding the result to the output format.

use mantissa_core::{Format, KernelKind, Series, SeriesName, Setting};
use rayon::prelude::*;

/// Maximum number of compared rows. Computing the reference for all rows of a large result would take longer than all measurements.
const MAX_COMPARED_ROWS: usize = 256;
/// Maximum number of compared rows for f64 inputs, whose reference is computed in twice the precision of f64.
const MAX_COMPARED_ROWS_F64: usize = 32;

/// Difference between a result and its reference. The first four errors are Frobenius norms of differences, divided by the norm of the reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultError {
    /// Total error.
    pub(crate) relative: f64,
    /// Error from rounding the operands: the error of an exact matmul of the rounded operands.
    pub(crate) quantisation: f64,
    /// Error from rounding the exact result of the rounded operands to the output format.
    pub(crate) rounding: f64,
    /// Error from the accumulation: the difference between the result and the correctly rounded result. The latter is the exact result of the
    /// rounded operands, rounded to the output format.
    pub(crate) accumulation: f64,
    /// Sum of `|result| - |reference|`, divided by the sum of `|reference|`. Negative if results are too small, as after truncation.
    pub(crate) bias: f64,
    /// Largest distance from the reference, in units in the last place (ULP) of the reference in the output format.
    pub(crate) max_ulp: f64,
    /// Histogram of these distances, with the upper bin edges 0.5, 1, 2, 4, … ULP.
    pub(crate) ulps: Vec<u64>,
    /// True if every compared result is finite.
    pub(crate) finite: bool,
}

impl ResultError {
    /// Returns the histogram of distances as a series: the upper edge (x) and the count (y) of each bin.
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

/// Sums over the values of one or more rows.
#[derive(Debug, Clone, Default)]
struct ErrorSums {
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

impl ErrorSums {
    fn add(mut self, other: &Self) -> Self {
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

/// Compares evenly spaced rows of a result `[rows, columns]` with expected rows. For a row number, `expected` returns the row computed from
/// the stored inputs, and the row computed from the rounded operands.
pub(crate) fn compare(
    result: &[f64],
    [rows, columns]: [usize; 2],
    formats: Formats,
    expected: impl Fn(usize) -> (Vec<f64>, Vec<f64>) + Sync,
) -> ResultError {
    let count = rows.min(match formats.needs_more_than_f64() {
        true => MAX_COMPARED_ROWS_F64,
        false => MAX_COMPARED_ROWS,
    });
    let rows: Vec<usize> = (0..count).map(|row| row * rows / count).collect();
    // Sum the rows in order, so that the result does not depend on the number of threads.
    let row_sums: Vec<ErrorSums> = rows
        .par_iter()
        .map(|&row| {
            let (reference, from_rounded) = expected(row);
            let result = &result[row * columns..][..columns];
            compare_row(result, &reference, &from_rounded, formats.output)
        })
        .collect();
    let sums = row_sums.iter().fold(ErrorSums::default(), ErrorSums::add);
    let relative = |sum: f64| (sum / sums.norm).sqrt();
    ResultError {
        relative: relative(sums.error),
        quantisation: relative(sums.quantisation),
        rounding: relative(sums.rounding),
        accumulation: relative(sums.accumulation),
        bias: sums.excess / sums.magnitude,
        max_ulp: sums.max_ulp,
        ulps: sums.ulps,
        finite: !sums.infinite,
    }
}

/// Rounds values to a format.
pub(crate) fn round_values(values: &[f64], format: Format) -> Vec<f64> {
    values.iter().map(|x| format.round(*x).value).collect()
}

/// Compares a row of a result with the row computed from the stored inputs and the row computed from the rounded operands.
fn compare_row(result: &[f64], reference: &[f64], from_rounded: &[f64], output: Format) -> ErrorSums {
    let mut sums = ErrorSums::default();
    for ((&result, &reference), &from_rounded) in result.iter().zip(reference).zip(from_rounded) {
        if !result.is_finite() {
            sums.infinite = true;
            continue;
        }
        let rounded = output.round(from_rounded).value;
        sums.error += (result - reference).powi(2);
        sums.quantisation += (from_rounded - reference).powi(2);
        sums.rounding += (rounded - from_rounded).powi(2);
        sums.accumulation += (result - rounded).powi(2);
        sums.norm += reference * reference;
        sums.excess += result.abs() - reference.abs();
        sums.magnitude += reference.abs();
        let ulps = (result - reference).abs() / output.ulp(reference);
        sums.max_ulp = sums.max_ulp.max(ulps);
        let bin = bin(ulps);
        if sums.ulps.len() <= bin {
            sums.ulps.resize(bin + 1, 0);
        }
        sums.ulps[bin] += 1;
    }
    sums
}

/// Multiplies a row by a matrix `[lhs.len(), n]`, in f64 or in about twice that precision (compensated dot product of Ogita, Rump and
/// Oishi).
pub(crate) fn row_times_matrix(lhs: &[f64], rhs: &[f64], n: usize, compensated: bool) -> Vec<f64> {
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
            let product_error = a.mul_add(*b, -product);
            let new_sum = *sum + product;
            let added = new_sum - *sum;
            *lost += (*sum - (new_sum - added)) + (product - added) + product_error;
            *sum = new_sum;
        }
    }
    sums.iter().zip(lost).map(|(sum, lost)| sum + lost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

    /// Compares a result of one row with the expected row.
    fn compare_one(result: &[f64], reference: &[f64], from_rounded: &[f64], formats: Formats) -> ResultError {
        compare(result, [1, result.len()], formats, |_| {
            (reference.to_vec(), from_rounded.to_vec())
        })
    }

    fn f32_formats(operand: Format) -> Formats {
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
    fn error_of_a_perturbed_result_is_the_perturbation() {
        let formats = f32_formats(Format::F32);
        let exact = compare_one(&VALUES, &VALUES, &VALUES, formats);
        assert_eq!((exact.relative, exact.max_ulp, exact.finite), (0.0, 0.0, true));
        assert_eq!(exact.ulps, [4]);

        let mut perturbed = VALUES;
        perturbed[3] += 3.0 * Format::F32.ulp(4.0);
        let error = compare_one(&perturbed, &VALUES, &VALUES, formats);
        assert_eq!((error.max_ulp, error.ulps.as_slice()), (3.0, &[3, 0, 0, 1][..]));
        let expected = 3.0 * Format::F32.ulp(4.0) / 30f64.sqrt();
        assert!((error.relative - expected).abs() < 1e-20);
        assert_eq!((error.accumulation, error.quantisation), (error.relative, 0.0));
        assert!(error.bias > 0.0);
        assert!(!compare_one(&[f64::NAN; 4], &VALUES, &VALUES, formats).finite);
    }

    #[test]
    fn each_error_source_is_measured_separately() {
        // 1 + 2⁻⁹ is 1 in bf16, so the whole error comes from the operand.
        let x = 1.0 + 2f64.powi(-9);
        let error = compare_one(&[1.0], &[x], &[1.0], f32_formats(Format::Bf16));
        assert_eq!((error.quantisation, error.accumulation), (2f64.powi(-9) / x, 0.0));
        // The result was truncated to f16 instead of rounded. Its error in the last place counts as accumulation error.
        let f16_output = Formats {
            stored: Format::F32,
            operand: Format::F32,
            output: Format::F16,
        };
        let x = 1.0 + 0.75 * Format::F16.epsilon();
        let error = compare_one(&[1.0], &[x], &[x], f16_output);
        assert_eq!(error.rounding, 0.25 * Format::F16.epsilon() / x);
        assert_eq!(error.accumulation, Format::F16.epsilon() / x);
        assert!(error.bias < 0.0);
    }

    #[test]
    fn the_compensated_reference_is_more_precise_than_f64() {
        // The exact dot product is 1 + 2⁻⁶⁰ − 1 = 2⁻⁶⁰.
        let (lhs, rhs) = ([1.0, 1.0, 1.0, 0.0], [1.0, 2f64.powi(-60), -1.0, 0.0]);
        let column = |values: [f64; 4]| {
            values
                .iter()
                .flat_map(|x| [*x, 0.0, 0.0, 0.0])
                .collect::<Vec<_>>()
        };
        assert_eq!(row_times_matrix(&lhs, &column(rhs), 4, false)[0], 0.0);
        assert_eq!(row_times_matrix(&lhs, &column(rhs), 4, true)[0], 2f64.powi(-60));
    }
}
