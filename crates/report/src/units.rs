//! Number formatting: units, decimals and the sign for absent values.

use mantissa_analysis::{Estimate, Interval};
use mantissa_core::{MetricName, Unit};

/// Text in place of an absent value.
pub const ABSENT: &str = "–";

/// Longest time in seconds that is shown in seconds; longer times are shown in minutes.
const MAX_SECONDS: f64 = 120.0;

/// Display format of a quantity: factor, unit and number of decimals, shared by an axis or by a value and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Ratio of the shown to the recorded value.
    pub factor: f64,
    /// Unit after the number; may be empty.
    pub unit: &'static str,
    notation: Notation,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Notation {
    Decimals(usize),
    Scientific,
}

impl Scale {
    /// Chooses a readable scale for `magnitude`, recorded in the unit of `metric`.
    pub fn of(metric: MetricName, magnitude: f64) -> Self {
        let size = magnitude.abs();
        let step = |factor: f64, unit: &'static str| Self::decimals(factor, unit, size * factor);
        match metric.unit() {
            Unit::Seconds if size > MAX_SECONDS => step(1.0 / 60.0, "min"),
            Unit::Seconds if size >= 1.0 || size == 0.0 => step(1.0, "s"),
            Unit::Seconds if size >= 1e-3 => step(1e3, "ms"),
            Unit::Seconds => step(1e6, "µs"),
            Unit::Bytes if size >= 1e9 => step(1e-9, "GB"),
            Unit::Bytes => step(1e-6, "MB"),
            Unit::Joules if size >= 1e4 => step(1e-3, "kJ"),
            Unit::Joules => step(1.0, "J"),
            Unit::Watts => step(1.0, "W"),
            Unit::FlopsPerSecond if size >= 1e12 => step(1e-12, "TFLOP/s"),
            Unit::FlopsPerSecond => step(1e-9, "GFLOP/s"),
            Unit::ValuesPerSecond => step(1e-6, "M values/s"),
            Unit::BytesPerSecond => step(1e-9, "GB/s"),
            Unit::SamplesPerSecond => step(1.0, "samples/s"),
            Unit::TokensPerSecond => step(1.0, "tokens/s"),
            // Settings often differ only in the last decimals of these metrics.
            Unit::Count if metric == MetricName::MeanStaleness => Self {
                factor: 1.0,
                unit: "",
                notation: Notation::Decimals(2),
            },
            _ if matches!(metric, MetricName::TestLoss | MetricName::Perplexity) => Self {
                factor: 1.0,
                unit: "",
                notation: Notation::Decimals(4),
            },
            Unit::Nats => Self {
                factor: 1.0,
                unit: "",
                notation: Notation::Decimals(3),
            },
            Unit::Ulp | Unit::Count if size < 1e6 => Self {
                factor: 1.0,
                unit: "",
                notation: Notation::Decimals(0),
            },
            Unit::Ulp | Unit::Count => Self {
                factor: 1.0,
                unit: "",
                notation: Notation::Scientific,
            },
            Unit::Ratio if is_share(metric) => Self {
                factor: 100.0,
                unit: "%",
                notation: Notation::Decimals(2),
            },
            Unit::Ratio if is_error(metric) => Self {
                factor: 1.0,
                unit: "",
                notation: Notation::Scientific,
            },
            Unit::Ratio => step(1.0, ""),
        }
    }

    /// Chooses three significant digits or more, but at most two decimals.
    fn decimals(factor: f64, unit: &'static str, shown: f64) -> Self {
        let decimals = match shown {
            x if x >= 1000.0 => 0,
            x if x >= 100.0 => 1,
            _ => 2,
        };
        Self {
            factor,
            unit,
            notation: Notation::Decimals(decimals),
        }
    }

    /// Formats the number without its unit.
    pub fn number(self, value: f64) -> String {
        /// Numbers from this on are not plausible measurements. They are shown in scientific notation, which takes less space.
        const MIN_SCIENTIFIC: f64 = 1e15;
        let shown = value * self.factor;
        match self.notation {
            _ if !shown.is_finite() => ABSENT.to_owned(),
            _ if shown.abs() >= MIN_SCIENTIFIC => scientific(shown),
            Notation::Decimals(decimals) => group_thousands(&format!("{shown:.decimals$}")),
            Notation::Scientific => scientific(shown),
        }
    }

    /// Formats the number with its unit.
    pub fn text(self, value: f64) -> String {
        match self.unit {
            "" => self.number(value),
            unit => format!("{} {unit}", self.number(value)),
        }
    }

    /// Formats both ends of an interval on this scale.
    pub fn range(self, interval: Interval) -> String {
        format!("{}–{}", self.number(interval.low), self.number(interval.high))
    }
}

/// Returns `true` if a metric is a numeric error, which spans powers of ten.
fn is_error(metric: MetricName) -> bool {
    matches!(
        metric,
        MetricName::RelativeError
            | MetricName::QuantisationError
            | MetricName::AccumulationError
            | MetricName::RoundingError
            | MetricName::MagnitudeBias
            | MetricName::GradientError
    )
}

/// Returns `true` if a dimensionless metric is a share, shown in percent.
fn is_share(metric: MetricName) -> bool {
    matches!(
        metric,
        MetricName::TestAccuracy
            | MetricName::ValidationAccuracy
            | MetricName::TrainAccuracy
            | MetricName::Agreement
            | MetricName::DeviceIdleShare
            | MetricName::CommunicationShare
    )
}

/// Formats a value with its unit, e.g. `45.12 s`.
pub fn value(metric: MetricName, estimate: Option<&Estimate>) -> String {
    estimate.map_or_else(|| ABSENT.to_owned(), |e| Scale::of(metric, e.value).text(e.value))
}

/// Formats an accuracy with the decimals that the half-width of its interval warrants: `86.1 ± 2.1 %`.
pub fn accuracy(estimate: Option<&Estimate>) -> String {
    /// Half-widths in percentage points below which a second decimal is significant.
    const TWO_DECIMALS_BELOW: f64 = 0.5;
    let Some(estimate) = estimate else {
        return ABSENT.to_owned();
    };
    let percent = estimate.value * 100.0;
    match estimate
        .interval
        .map(|interval| (interval.high - interval.low) * 50.0)
    {
        Some(half) if half < TWO_DECIMALS_BELOW => format!("{percent:.2} ± {half:.2} %"),
        Some(half) => format!("{percent:.1} ± {half:.1} %"),
        None => format!("{percent:.2} %"),
    }
}

/// Formats a ratio: `1.84×`, or `0.012×` where two decimals are too few.
pub fn times(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{ratio:.3}×")
    } else {
        format!("{ratio:.2}×")
    }
}

/// Formats a change given as a share: `+0.83 %`, `−0.01 %`, `0.00 %`.
pub fn signed_percent(change: f64) -> String {
    let text = format!("{:+.2}", 100.0 * change);
    match text.trim_start_matches(['+', '-']) {
        "0.00" => "0.00 %".to_owned(),
        _ => format!("{} %", with_minus(&text)),
    }
}

/// Replaces hyphens by minus signs.
pub fn with_minus(number: &str) -> String {
    number.replace('-', "−")
}

/// Formats in scientific notation: `1.2×10⁻⁷`; zero is `0`.
pub fn scientific(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    if exponent == "0" {
        digits.to_owned()
    } else {
        format!("{digits}×10{}", superscript(exponent))
    }
}

/// Formats a limit of a number format: `65504` while readable, else `3.40×10³⁸`.
pub fn limit(value: f64) -> String {
    if (1.0..1e6).contains(&value) {
        value.to_string()
    } else {
        scientific(value)
    }
}

/// Formats a power of ten: `10⁻⁷`.
pub fn power_of_ten(exponent: i32) -> String {
    format!("10{}", superscript(&exponent.to_string()))
}

/// Formats a power of two: `2⁻²⁴`.
pub fn power_of_two(exponent: i64) -> String {
    format!("2{}", superscript(&exponent.to_string()))
}

fn superscript(digits: &str) -> String {
    digits
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            other => other
                .to_digit(10)
                .and_then(|d| char::from_u32(0x2070 + d))
                .unwrap_or(other),
        })
        .collect()
}

/// Formats a count: `12,500`.
pub fn count(n: u64) -> String {
    group_thousands(&n.to_string())
}

/// Inserts commas between groups of three digits in front of the decimal point.
fn group_thousands(number: &str) -> String {
    let (whole, decimals) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole
        .strip_prefix('-')
        .map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + decimals
}

/// Returns the kind of memory of a metric.
pub fn memory_title(metric: MetricName) -> &'static str {
    match metric {
        MetricName::AllocatorReservedPeakBytes => "allocator, reserved",
        MetricName::DevicePeakBytes => "whole device",
        _ => "host, worker process",
    }
}

/// Returns the name of a peak memory within a sentence.
pub fn memory_noun(metric: MetricName) -> &'static str {
    match metric {
        MetricName::AllocatorReservedPeakBytes => "allocator memory",
        MetricName::DevicePeakBytes => "device memory",
        _ => "process memory",
    }
}

/// Returns the heading of an energy metric.
pub fn energy_title(metric: MetricName) -> &'static str {
    match metric {
        MetricName::EnergyCounterJoules => "Energy by NVML counter",
        _ => "Energy by sampled power",
    }
}

/// Energy metrics. The device's own counter takes precedence.
pub const ENERGY: [MetricName; 2] = [MetricName::EnergyCounterJoules, MetricName::EnergyIntegralJoules];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metric: MetricName, value: f64) -> String {
        Scale::of(metric, value).text(value)
    }

    #[test]
    fn times_above_two_minutes_are_in_minutes() {
        assert_eq!(shown(MetricName::TrainSeconds, 1475.4), "24.59 min");
        assert_eq!(shown(MetricName::TrainSeconds, 120.0), "120.0 s");
        assert_eq!(shown(MetricName::StepSeconds, 0.0123), "12.30 ms");
        assert_eq!(shown(MetricName::StepSeconds, 4.2e-6), "4.20 µs");
    }

    #[test]
    fn bytes_are_decimal() {
        assert_eq!(shown(MetricName::HostPeakBytes, 5.37e9), "5.37 GB");
        assert_eq!(shown(MetricName::HostPeakBytes, 999e6), "999.0 MB");
    }

    #[test]
    fn shares_are_percent_and_errors_are_powers_of_ten() {
        assert_eq!(shown(MetricName::TestAccuracy, 0.9214), "92.14 %");
        assert_eq!(shown(MetricName::RelativeError, 3.9e-5), "3.90×10⁻⁵");
        assert_eq!(shown(MetricName::RelativeError, 0.0), "0");
        assert_eq!(shown(MetricName::FlopsPerSecond, 206e9), "206.0 GFLOP/s");
        assert_eq!(shown(MetricName::ValuesPerSecond, 31.4e6), "31.40 M values/s");
        assert_eq!(shown(MetricName::BytesPerSecond, 12.5e9), "12.50 GB/s");
        assert_eq!(shown(MetricName::TokensPerSecond, 12345.6), "12,346 tokens/s");
    }

    #[test]
    fn implausible_values_are_powers_of_ten() {
        assert_eq!(shown(MetricName::HostPeakBytes, -1.7e308), "-1.70×10²⁹⁹ GB");
    }

    #[test]
    fn non_finite_values_are_absent() {
        assert_eq!(Scale::of(MetricName::TrainSeconds, 1.0).number(f64::NAN), ABSENT);
        assert_eq!(value(MetricName::TrainSeconds, None), ABSENT);
    }

    #[test]
    fn ends_of_an_interval_share_the_scale_of_the_value() {
        let interval = Interval {
            low: 118.0,
            high: 126.0,
        };
        assert_eq!(
            Scale::of(MetricName::TrainSeconds, 121.0).range(interval),
            "1.97–2.10"
        );
    }

    #[test]
    fn an_accuracy_has_the_decimals_that_its_interval_warrants() {
        let with = |low, high| Estimate {
            value: 0.9214,
            interval: Some(Interval { low, high }),
            n: 1,
            method: "",
        };
        assert_eq!(accuracy(Some(&with(0.90, 0.94))), "92.1 ± 2.0 %");
        assert_eq!(accuracy(Some(&with(0.919, 0.925))), "92.14 ± 0.30 %");
        assert_eq!(
            accuracy(Some(&Estimate {
                interval: None,
                ..with(0.0, 1.0)
            })),
            "92.14 %"
        );
        assert_eq!(accuracy(None), ABSENT);
    }

    #[test]
    fn a_change_has_a_sign_unless_it_is_zero() {
        let texts = [0.0083, -0.0001, 0.0, -0.00001].map(signed_percent);
        assert_eq!(texts, ["+0.83 %", "−0.01 %", "0.00 %", "0.00 %"]);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }
}
