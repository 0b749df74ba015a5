//! Text and number formatting of changes.

use mantissa_report::{ABSENT, Scale};

use super::escape::shorten;
use crate::{Change, ComparedCell};

/// Maximum lengths of suite, workload and setting in the name of a cell, in characters. Each has its own limit, so that a long suite does
/// not hide the setting.
const MAX_SUITE_CHARS: usize = 40;
const MAX_WORKLOAD_CHARS: usize = 40;
const MAX_SETTING_CHARS: usize = 80;
/// Ratios of at least this value, or less than its inverse, are printed as a factor instead of percent.
const MIN_FACTOR: f64 = 3.0;
/// p-values below this are printed as `< 0.0001`.
const MIN_P: f64 = 1e-4;

/// Returns the display name of a cell: `smoke · matmul · 32-true`.
pub(crate) fn name(cell: &ComparedCell) -> String {
    format!(
        "{} · {}",
        shorten(&cell.suite, MAX_SUITE_CHARS),
        name_in_suite(cell)
    )
}

/// Returns the display name without the suite.
pub(crate) fn name_in_suite(cell: &ComparedCell) -> String {
    format!(
        "{} · {}",
        shorten(&cell.workload, MAX_WORKLOAD_CHARS),
        shorten(&cell.setting, MAX_SETTING_CHARS)
    )
}

/// Columns of a change in tables.
pub(crate) struct ChangeText {
    /// The baseline's value with its unit.
    pub before: String,
    /// The candidate's value with its unit.
    pub after: String,
    /// The change with its interval, the common drift of all cells, and the run-to-run noise.
    pub change: String,
    /// Adjusted p-value, or the unadjusted one if there is none.
    pub p: String,
}

impl ChangeText {
    pub fn of(change: &Change) -> Self {
        let scale = Scale::of(change.metric, change.baseline);
        let text = |value: f64| match value.is_finite() {
            true => scale.text(value),
            false => ABSENT.to_owned(),
        };
        let p = change.adjusted_p.or(change.p).filter(|p| p.is_finite());
        Self {
            before: text(change.baseline),
            after: text(change.candidate),
            change: match drift_and_noise(change, scale) {
                Some(context) => format!("{}; {context}", change_and_interval(change, scale)),
                None => change_and_interval(change, scale),
            },
            p: match p {
                Some(p) if p < MIN_P => format!("< {MIN_P}"),
                Some(p) => format!("{p:.4}"),
                None => ABSENT.to_owned(),
            },
        }
    }

    /// Formats a change in one line: `step_seconds: 1.00 s → 1.25 s, +25.0 % [+20.0 %, +30.0 %], p 0.0004`.
    pub fn sentence(change: &Change) -> String {
        let text = Self::of(change);
        let mut sentence = format!("{}: {} → {}", change.metric, text.before, text.after);
        if text.change != ABSENT {
            sentence += &format!(", {}", text.change);
        }
        if text.p != ABSENT {
            sentence += &format!(", p {}", text.p);
        }
        if !change.doubt.is_empty() {
            sentence += &format!(" ({})", change.doubt);
        }
        sentence
    }
}

/// Formats the common drift of all cells and the run-to-run noise of the cell, if they affect the verdict.
fn drift_and_noise(change: &Change, scale: Scale) -> Option<String> {
    let percent = |value: f64| format!("{:.1} %", 100.0 * value);
    let drift = signed(&percent((change.drift - 1.0).abs()), change.drift - 1.0);
    let drift = drift
        .starts_with(['+', '−'])
        .then(|| format!("drift of all cells {drift}"));
    let noise = change.is_fenced().then(|| match change.difference {
        true => format!(
            "run-to-run noise {}{}",
            scale.number(change.threshold),
            points(scale)
        ),
        false => format!("run-to-run noise {}", percent(change.threshold)),
    });
    let texts: Vec<String> = drift.into_iter().chain(noise).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the unit of a difference: ` points` on a percent scale, otherwise empty.
fn points(scale: Scale) -> &'static str {
    match scale.unit {
        "%" => " points",
        _ => "",
    }
}

/// Formats a change and its interval: `+25.0 % [+20.0 %, +30.0 %]`.
fn change_and_interval(change: &Change, scale: Scale) -> String {
    let text = |value: f64| match change.difference {
        true => signed(&scale.number(value.abs()), value),
        false if !(1.0 / MIN_FACTOR..MIN_FACTOR).contains(&value) => format!("{value:.3}×"),
        false => signed(&format!("{:.1} %", (value - 1.0).abs() * 100.0), value - 1.0),
    };
    let Some(value) = change.change.filter(|value| value.is_finite()) else {
        return ABSENT.to_owned();
    };
    let unit = if change.difference { points(scale) } else { "" };
    let interval = change
        .interval
        .filter(|(low, high)| low.is_finite() && high.is_finite());
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", text(low), text(high)));
    format!("{}{unit}{}", text(value), interval.unwrap_or_default())
}

/// Adds the sign of `value` to its printed magnitude, unless the magnitude is printed as zero.
fn signed(magnitude: &str, value: f64) -> String {
    let is_zero = !magnitude.contains(|c: char| ('1'..='9').contains(&c));
    match value {
        _ if is_zero => magnitude.to_owned(),
        value if value < 0.0 => format!("−{magnitude}"),
        _ => format!("+{magnitude}"),
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::*;
    use crate::ChangeVerdict;

    fn change(metric: MetricName, baseline: f64, candidate: f64, by: f64) -> Change {
        Change {
            metric,
            baseline,
            candidate,
            processes: (5, 5),
            difference: metric.is_learned(),
            floor: 0.03,
            threshold: 0.03,
            verdict: ChangeVerdict::Regressed,
            doubt: String::new(),
            change: Some(by),
            interval: None,
            p: None,
            adjusted_p: None,
            drift: 1.0,
            catches: None,
        }
    }

    #[test]
    fn a_time_changes_by_percent_and_an_accuracy_by_points() {
        let mut slower = change(MetricName::StepSeconds, 1.0, 1.25, 1.25);
        slower.interval = Some((1.2, 1.3));
        slower.adjusted_p = Some(0.000_03);
        assert_eq!(
            ChangeText::sentence(&slower),
            "step_seconds: 1.00 s → 1.25 s, +25.0 % [+20.0 %, +30.0 %], p < 0.0001"
        );
        let worse = change(MetricName::TestAccuracy, 0.92, 0.90, -0.02);
        assert_eq!(
            ChangeText::sentence(&worse),
            "test_accuracy: 92.00 % → 90.00 %, −2.00 points"
        );
    }

    #[test]
    fn large_ratios_are_factors_and_zero_has_no_sign() {
        assert_eq!(
            ChangeText::of(&change(MetricName::RelativeError, 1e-7, 1e-3, 1e4)).change,
            "10000.000×"
        );
        assert_eq!(
            ChangeText::of(&change(MetricName::StepSeconds, 1.0, 1.0, 0.9999)).change,
            "0.0 %"
        );
    }

    #[test]
    fn drift_and_run_to_run_noise_are_printed() {
        let mut slower = change(MetricName::StepSeconds, 1.0, 1.25, 1.25);
        slower.drift = 0.98;
        slower.threshold = 0.2;
        assert_eq!(
            ChangeText::sentence(&slower),
            "step_seconds: 1.00 s → 1.25 s, +25.0 %; drift of all cells −2.0 %; run-to-run noise 20.0 %"
        );
        let mut worse = change(MetricName::TestAccuracy, 0.92, 0.90, -0.02);
        worse.threshold = 0.035;
        assert_eq!(
            ChangeText::sentence(&worse),
            "test_accuracy: 92.00 % → 90.00 %, −2.00 points; run-to-run noise 3.50 points"
        );
    }

    #[test]
    fn non_finite_values_are_omitted() {
        let mut odd = change(MetricName::StepSeconds, 1.0, f64::NAN, f64::NAN);
        odd.p = Some(f64::NAN);
        odd.interval = Some((f64::NAN, f64::INFINITY));
        assert_eq!(ChangeText::sentence(&odd), "step_seconds: 1.00 s → –");
        odd.change = Some(1.5);
        assert_eq!(ChangeText::of(&odd).change, "+50.0 %");
    }
}
