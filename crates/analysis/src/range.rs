//! Counts of overflow and underflow, by comparison with the same values in a wider format.

use mantissa_core::{Format, RangeCounts};

/// Counts the values that overflowed (not finite), underflowed or are subnormal in `format`, and the exponents of the references.
/// `references` are the same elements in a wider format.
///
/// A zero counts as underflow if its reference is not zero and smaller in magnitude than `underflow_limit`. If the reference is larger, the
/// zero is due to a rounding error and not to the range, e.g. an error that moves the input of a ReLU below 0.
///
/// # Panics
/// Panics if the slices differ in length.
pub fn range_counts(values: &[f64], references: &[f64], format: Format, underflow_limit: f64) -> RangeCounts {
    assert_eq!(
        values.len(),
        references.len(),
        "each value must have a reference in the wider format"
    );
    let pairs = || values.iter().zip(references);
    let count = |matches: fn(f64, f64) -> bool| {
        values
            .iter()
            .filter(|value| matches(**value, format.min_normal()))
            .count() as u64
    };
    let exponents = || references.iter().filter_map(|reference| exponent(*reference));
    let lowest_exponent = exponents().min().unwrap_or(0);
    let highest = exponents().max();
    let mut histogram = vec![0; highest.map_or(0, |highest| (highest - lowest_exponent + 1) as usize)];
    exponents().for_each(|exponent| histogram[(exponent - lowest_exponent) as usize] += 1);
    RangeCounts {
        elements: values.len() as u64,
        overflow: count(|value, _| !value.is_finite()),
        underflow: pairs()
            .filter(|(value, reference)| {
                **value == 0.0 && **reference != 0.0 && reference.abs() < underflow_limit
            })
            .count() as u64,
        subnormal: count(|value, smallest| value != 0.0 && value.abs() < smallest),
        lowest_exponent,
        exponents: histogram,
    }
}

/// Returns ⌊log₂|x|⌋ of a finite value that is not zero.
fn exponent(x: f64) -> Option<i32> {
    if x == 0.0 || !x.is_finite() {
        return None;
    }
    // Reads the exponent from the bits. `log2` would round up for a value just below a power of two.
    let biased = (x.to_bits() >> 52 & 0x7ff) as i32;
    Some(match biased {
        0 => x.abs().log2().floor() as i32,
        biased => biased - 1023,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_value_is_counted_once() {
        let tiny = Format::F16.min_subnormal();
        let values = [1.0, f64::INFINITY, f64::NAN, 0.0, 0.0, -3.0 * tiny];
        let references = [1.0, 1e6, 2.0, 1e-9, 0.0, -3.1 * tiny];
        let counts = range_counts(&values, &references, Format::F16, Format::F16.min_normal());
        assert_eq!(
            (
                counts.elements,
                counts.overflow,
                counts.underflow,
                counts.subnormal
            ),
            (6, 2, 1, 1)
        );
        // 10⁻⁹ lies in [2⁻³⁰, 2⁻²⁹), 10⁶ in [2¹⁹, 2²⁰).
        assert_eq!((counts.lowest_exponent, counts.exponents.len()), (-30, 50));
        assert_eq!(counts.exponents.iter().sum::<u64>(), 5);
        assert_eq!(counts.exponents[49], 1);
    }

    #[test]
    fn empty_and_zero_tensors_have_no_exponents() {
        let counts = |values: &[f64]| range_counts(values, values, Format::F16, 1.0);
        assert_eq!(counts(&[]), RangeCounts::default());
        assert!(counts(&[0.0]).exponents.is_empty());
    }

    #[test]
    fn zero_with_a_normal_reference_is_not_underflow() {
        let underflow = |reference: f64, underflow_limit| {
            range_counts(&[0.0], &[reference], Format::Bf16, underflow_limit).underflow
        };
        let smallest = Format::Bf16.min_normal();
        assert_eq!((underflow(0.1, smallest), underflow(-0.1, smallest)), (0, 0));
        assert_eq!(underflow(-0.9 * smallest, smallest), 1);
        // The limit is infinite for weight updates: an update of any size can be lost when it is added to its weight.
        assert_eq!(underflow(-0.1, f64::INFINITY), 1);
    }

    proptest! {
        #[test]
        fn value_lies_between_the_powers_of_two_of_its_exponent(x in any::<f64>()) {
            prop_assume!(x.is_finite() && x != 0.0);
            let exponent = exponent(x).unwrap();
            let power = f64::from(exponent).exp2();
            // Compares the quotient because the next power of two above the largest values is infinite.
            prop_assert!(power <= x.abs() && x.abs() / power < 2.0);
        }

        #[test]
        fn counts_match_the_classes_of_rounding(references in prop::collection::vec(any::<f32>(), 0..50)) {
            let references: Vec<f64> = references.into_iter().filter(|x| x.is_finite()).map(f64::from).collect();
            let rounded: Vec<_> = references.iter().map(|x| Format::F16.round(*x)).collect();
            let values: Vec<f64> = rounded.iter().map(|rounded| rounded.value).collect();
            let counts = range_counts(&values, &references, Format::F16, Format::F16.min_normal());
            let count_of = |class| rounded.iter().filter(|rounded| rounded.class == class).count() as u64;
            prop_assert_eq!(counts.overflow, count_of(mantissa_core::FloatClass::Overflow));
            prop_assert_eq!(counts.underflow, count_of(mantissa_core::FloatClass::Underflow));
            prop_assert_eq!(counts.subnormal, count_of(mantissa_core::FloatClass::Subnormal));
        }
    }
}
