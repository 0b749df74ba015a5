//! Number formatting that does not round small numbers to zero.

use mantissa_analysis::Interval;

use crate::units::{Scale, scientific};

/// Numbers below this have two significant digits, because two decimals would leave one or none.
const TWO_DIGITS_BELOW: f64 = 0.1;
/// Numbers below this are written as powers of ten.
const SCIENTIFIC_BELOW: f64 = 1e-3;

/// Formats a number without its unit. Adds digits where the scale would round the number to zero or one digit.
pub(crate) fn number(scale: Scale, value: f64) -> String {
    let (text, shown) = (scale.number(value), value * scale.factor);
    let size = shown.abs();
    let is_zero = !text.contains(|c: char| matches!(c, '1'..='9'));
    match size {
        // Non-finite numbers and numbers in scientific notation need no additional digits.
        _ if !size.is_finite() || size == 0.0 || text.contains('×') => text,
        _ if !is_zero && size >= TWO_DIGITS_BELOW => text,
        _ if size < SCIENTIFIC_BELOW => scientific(shown),
        _ => {
            let decimals = 1 - size.log10().floor() as i32;
            format!("{shown:.*}", decimals.max(0) as usize)
        }
    }
}

/// Formats a number with its unit.
pub(crate) fn text(scale: Scale, value: f64) -> String {
    match scale.unit {
        "" => number(scale, value),
        unit => format!("{} {unit}", number(scale, value)),
    }
}

/// Formats both ends of an interval.
pub(crate) fn range(scale: Scale, interval: Interval) -> String {
    format!("{}–{}", number(scale, interval.low), number(scale, interval.high))
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::*;

    fn shown(metric: MetricName, value: f64) -> String {
        text(Scale::of(metric, value), value)
    }

    #[test]
    fn nonzero_shares_are_not_shown_as_zero() {
        let share = |value| shown(MetricName::UnderflowShare, value);
        assert_eq!(share(0.003), "0.0030");
        assert_eq!(share(0.0046), "0.0046");
        assert_eq!(share(3.1e-5), "3.10×10⁻⁵");
        assert_eq!(share(4e-9), "4.00×10⁻⁹");
        assert_eq!(share(0.05), "0.050");
        assert_eq!(share(0.42), "0.42");
        assert_eq!(share(0.0), "0.00");
        assert_eq!(share(f64::NAN), "–");
    }

    #[test]
    fn nonzero_values_are_not_shown_as_zero() {
        assert_eq!(shown(MetricName::OptimizerBytes, 1_200.0), "0.0012 MB");
        assert_eq!(shown(MetricName::MaxUlp, 0.4), "0.40");
        assert_eq!(shown(MetricName::TestAccuracy, 2e-6), "2.00×10⁻⁴ %");
        assert_eq!(shown(MetricName::TestLoss, 2e-5), "2.00×10⁻⁵");
        assert_eq!(shown(MetricName::RelativeError, 3.9e-5), "3.90×10⁻⁵");
        assert_eq!(shown(MetricName::TestAccuracy, 0.9), "90.00 %");
    }

    #[test]
    fn interval_bounds_near_zero_keep_their_digits() {
        let scale = Scale::of(MetricName::UnderflowShare, 0.3);
        let interval = Interval {
            low: 0.002,
            high: 0.31,
        };
        assert_eq!(range(scale, interval), "0.0020–0.31");
    }
}
