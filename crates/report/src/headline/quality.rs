//! Accuracies and perplexities of settings: significance of differences, and sentences.

use mantissa_analysis::CONFIDENCE;
use mantissa_core::MetricName;

use crate::{Group, Row, units};

/// Returns `true` if the accuracies of two rows can be compared. Accuracies over tokens cannot be compared: their intervals cover the
/// choice of the passages, although both rows predict the same passages.
pub(super) fn is_compared(row: &Row<'_>, base: &Row<'_>) -> bool {
    if row.cell.workload.predicts_tokens() {
        return false;
    }
    let interval = |row: &Row<'_>| row.metric(MetricName::TestAccuracy).and_then(|e| e.interval);
    row.accuracy_p.is_some() || (interval(row).is_some() && interval(base).is_some())
}

/// Returns `true` if the accuracies of two rows differ significantly: by McNemar's test if `accuracy_p` is known, or else if their
/// intervals do not overlap. Returns `false` if either accuracy is missing.
pub(crate) fn accuracy_differs(row: &Row<'_>, base: &Row<'_>) -> bool {
    let interval = |row: &Row<'_>| row.metric(MetricName::TestAccuracy).and_then(|e| e.interval);
    match (row.accuracy_p, interval(row), interval(base)) {
        (Some(p), ..) => p <= 1.0 - CONFIDENCE,
        (None, Some(mine), Some(theirs)) => !mine.overlaps(theirs),
        _ => false,
    }
}

pub(super) fn accuracy_text(row: &Row<'_>) -> Option<String> {
    with_interval(row, MetricName::TestAccuracy)
}

/// Formats a metric of a row with its interval, if there is one.
pub(super) fn with_interval(row: &Row<'_>, metric: MetricName) -> Option<String> {
    let estimate = row.metric(metric)?;
    let interval = units::interval(metric, estimate);
    let value = units::value(metric, Some(estimate));
    Some(interval.map_or_else(|| value.clone(), |interval| format!("{value} ({interval})")))
}

/// Reports how many settings have indistinguishable accuracies, to discourage ranking them.
pub(super) fn indistinct_accuracies(group: &Group<'_>, equal: &[&Row<'_>]) -> Option<String> {
    let known = equal
        .iter()
        .filter(|row| row.metrics.contains_key(&MetricName::TestAccuracy))
        .count();
    let reason = if equal.iter().any(|row| row.accuracy_p.is_some()) {
        "does not differ significantly from the baseline's on the same examples"
    } else {
        "has an interval that overlaps the baseline's"
    };
    let n = group
        .ok()
        .filter_map(|row| row.metric(MetricName::TestAccuracy))
        .map(|e| e.n)
        .min()?;
    (known > 1).then(|| {
        format!(
            "The test accuracy of {known} settings {reason} ({} test examples); their ranking by accuracy is not meaningful.",
            units::count(n)
        )
    })
}

/// Reports the lowest and the highest perplexity, and that of the baseline. Used if the fastest setting cannot be compared by perplexity.
pub(super) fn perplexities(
    group: &Group<'_>,
    rivals: &[&Row<'_>],
    (base_name, base): (&str, Option<String>),
) -> Option<String> {
    let metric = MetricName::Perplexity;
    let value = |row: &Row<'_>| row.metric(metric).map(|estimate| estimate.value);
    let mut known: Vec<&Row<'_>> = rivals
        .iter()
        .copied()
        .filter(|row| value(row).is_some())
        .collect();
    known.sort_by(|a, b| value(a).unwrap_or(0.0).total_cmp(&value(b).unwrap_or(0.0)));
    let describe = |row: &Row<'_>| {
        Some(format!(
            "{} for {}",
            with_interval(row, metric)?,
            group.label(row, &[])
        ))
    };
    let others = match known.as_slice() {
        [] => return None,
        [row] => describe(row)?,
        [lowest, .., highest] => format!("from {} to {}", describe(lowest)?, describe(highest)?),
    };
    let base = base.unwrap_or_else(|| units::ABSENT.to_owned());
    Some(format!(
        "Perplexity is {others}; the baseline's ({base_name}) is {base}. The uncertainty of the difference was not estimated."
    ))
}
