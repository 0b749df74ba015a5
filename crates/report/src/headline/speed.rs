//! Speed of settings relative to their baseline: the fastest one, and the significance of its speed-up.

use mantissa_analysis::{Doubt, Estimate, Verdict};

use crate::{Group, Row, baseline::SPEED_THRESHOLD, units};

/// Returns `true` if the row is significantly faster than its baseline.
pub(super) fn is_faster(row: &Row<'_>) -> bool {
    row.speed_verdict == Some(Verdict::Improved)
}

/// Returns the fastest row relative to the baseline. Significantly faster rows take precedence.
pub(super) fn fastest<'r, 'a>(rows: &[&'r Row<'a>]) -> Option<&'r Row<'a>> {
    let speed = |row: &Row<'_>| row.speed_up.as_ref().map(|e| e.value);
    let known = || rows.iter().copied().filter(|row| speed(row).is_some());
    let first = |a: &&Row<'_>, b: &&Row<'_>| speed(a).unwrap_or(0.0).total_cmp(&speed(b).unwrap_or(0.0));
    let sure = known().filter(|row| is_faster(row)).max_by(first);
    sure.or_else(|| known().max_by(first))
}

/// Returns `true` if a row is faster than its baseline and than the other row, by point estimates.
pub(super) fn beats(row: &Row<'_>, other: Option<&Row<'_>>) -> bool {
    let speed = |row: &Row<'_>| row.speed_up.as_ref().map_or(0.0, |e| e.value);
    speed(row) > other.map_or(1.0, speed).max(1.0)
}

/// Describes the point estimate of a setting that is not significantly faster than the baseline.
pub(super) fn nearest(group: &Group<'_>, name: &str, row: &Row<'_>) -> String {
    let speed = row.speed_up.as_ref();
    match speed.is_some_and(|speed| speed.value > 1.0) {
        true => format!(
            "the highest point estimate is that of {name}: {} the baseline's speed, {}",
            ratio(speed),
            group.value(group.speed, row)
        ),
        false => format!("the closest is {name} at {}", ratio(speed)),
    }
}

/// Describes the significance of a difference in speed.
pub(super) fn certainty(verdict: Verdict, row: &Row<'_>) -> String {
    let processes = match row.processes() {
        1 => "one process".to_owned(),
        count => format!("{count} processes"),
    };
    match verdict {
        Verdict::Improved | Verdict::Regressed => {
            format!("The difference is significant ({processes}).")
        }
        Verdict::Unchanged => format!(
            "Both are equally fast within {:.0} % ({processes}).",
            100.0 * SPEED_THRESHOLD
        ),
        Verdict::Inconclusive(Doubt::TooNoisy) => {
            "The difference is within the variation between processes: inconclusive.".to_owned()
        }
        Verdict::Inconclusive(_) => {
            format!("With {processes}, the difference may be chance: inconclusive.")
        }
    }
}

pub(super) fn ratio(estimate: Option<&Estimate>) -> String {
    let Some(estimate) = estimate else {
        return units::ABSENT.to_owned();
    };
    let value = units::times(estimate.value);
    match estimate.interval {
        Some(interval) => format!("{value} ({:.2}–{:.2})", interval.low, interval.high),
        None => value,
    }
}
