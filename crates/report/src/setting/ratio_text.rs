//! Text of a ratio with its certainty.

use mantissa_analysis::Estimate;
use mantissa_core::MetricName;

use crate::units;

/// Formats a ratio between processes with its interval, or with the reason why it has none: `1.95× (1.90–2.00)`, `1.95× (measured once)`,
/// `1.95× (3 processes)`.
pub(crate) fn ratio_text(ratio: &Estimate) -> String {
    format!("{} ({})", units::times(ratio.value), certainty(ratio))
}

/// Formats a ratio of memory. Bytes that the program counts are the same in every process, so the ratio of two counts needs no interval.
pub(crate) fn memory_text(metric: MetricName, ratio: &Estimate) -> String {
    match metric.is_counted() {
        true => units::times(ratio.value),
        false => ratio_text(ratio),
    }
}

/// Formats the interval of a ratio between processes, or the reason why it has none.
pub(crate) fn certainty(ratio: &Estimate) -> String {
    match (ratio.interval, ratio.n) {
        (Some(ends), _) => format!("{:.2}–{:.2}", ends.low, ends.high),
        (None, 0 | 1) => "measured once".to_owned(),
        (None, n) => format!("{n} processes"),
    }
}

#[cfg(test)]
mod tests {
    use mantissa_analysis::hodges_lehmann_ratio;

    use super::*;

    #[test]
    fn ratio_has_an_interval_or_the_number_of_processes() {
        let ratio = |n: usize| ratio_text(&hodges_lehmann_ratio(&vec![3.0; n], &vec![2.0; n]).unwrap());
        assert_eq!(ratio(1), "1.50× (measured once)");
        assert_eq!(ratio(3), "1.50× (3 processes)");
        assert_eq!(ratio(5), "1.50× (1.50–1.50)");
    }
}
