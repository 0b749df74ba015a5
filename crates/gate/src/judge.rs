//! Verdicts on the metrics of two runs. The p-values are corrected for the number of all comparisons.

use std::collections::BTreeSet;

use mantissa_analysis::{
    Compared, Doubt, Floor, GateVerdict, Rules, Scale, Verdict, examples_error, gate, median,
};
use mantissa_core::MetricName;

use crate::{
    Change, ChangeVerdict, Fences, MeasuredCell, Policy, interleaving::is_interleaved, pair::Pair,
    policy::REDUNDANT_METRICS,
};

/// Metric of a cell with its values on both sides, before the verdict.
struct Draft {
    /// Index of the cell.
    cell: usize,
    metric: MetricName,
    baseline: Vec<f64>,
    candidate: Vec<f64>,
    floor: Floor,
    fence: Option<f64>,
    shared_error: f64,
    interleaved: bool,
}

/// Returns the changes of the metrics of each pair, in the order of `pairs`.
pub(crate) fn judge_all(pairs: &[Pair<'_>], policy: &Policy, fences: &Fences) -> Vec<Vec<Change>> {
    let drafts: Vec<Draft> = pairs
        .iter()
        .enumerate()
        .flat_map(|(cell, pair)| drafts(cell, pair, policy, fences))
        .collect();
    let family: Vec<Compared<'_>> = drafts
        .iter()
        .map(|draft| Compared {
            metric: draft.metric,
            baseline: &draft.baseline,
            candidate: &draft.candidate,
            floor: draft.floor,
            fence: draft.fence,
            shared_error: draft.shared_error,
            turns: draft.interleaved,
        })
        .collect();
    let rules = Rules {
        level: policy.level,
        repeats: policy.repeats as usize,
        looks: policy.looks,
    };
    let rulings = gate(&family, rules);
    let mut changes: Vec<Vec<Change>> = pairs.iter().map(|_| vec![]).collect();
    for (draft, ruling) in drafts.iter().zip(rulings) {
        changes[draft.cell].extend(change(draft, &ruling));
    }
    changes
}

fn drafts(cell: usize, pair: &Pair<'_>, policy: &Policy, fences: &Fences) -> Vec<Draft> {
    let (Some(before), Some(after)) = (pair.before, pair.after) else {
        return vec![];
    };
    // Metrics that only the baseline has are not judged here; the function `findings` reports them.
    let has = |measured: &MeasuredCell, metric| !measured.values(metric).is_empty();
    let shared_metrics: BTreeSet<MetricName> = policy
        .floors
        .keys()
        .copied()
        .filter(|metric| has(before, *metric) && has(after, *metric))
        .collect();
    let is_redundant = |metric: &MetricName| {
        REDUNDANT_METRICS.iter().any(|group| {
            let first = group.iter().find(|metric| shared_metrics.contains(metric));
            group.contains(metric) && first != Some(metric)
        })
    };
    let interleaved = is_interleaved(before, after);
    let judged = shared_metrics.iter().filter(|metric| !is_redundant(metric));
    judged
        .map(|&metric| Draft {
            cell,
            metric,
            baseline: before.independent_values(metric, policy.repeats as usize),
            candidate: after.independent_values(metric, policy.repeats as usize),
            floor: policy.floors[&metric],
            fence: fences.get(&(before.cell.id.clone(), metric)).copied(),
            shared_error: shared_error(metric, before, after),
            interleaved,
        })
        .collect()
}

/// Returns the standard error of an accuracy difference that is due to the finite number of test examples; 0 for other metrics. More
/// processes do not reduce it.
fn shared_error(metric: MetricName, before: &MeasuredCell, after: &MeasuredCell) -> f64 {
    if !matches!(
        metric,
        MetricName::TestAccuracy
            | MetricName::ValidationAccuracy
            | MetricName::TrainAccuracy
            | MetricName::Agreement
    ) {
        return 0.0;
    }
    let median_value = |measured: &MeasuredCell| Some(median(measured.values(metric))?.value);
    let examples = |measured: &MeasuredCell| {
        let readings = measured
            .completed()
            .filter_map(|process| process.values.get(&metric)?.n);
        readings.min()
    };
    let error = || {
        let examples = examples(before)?.min(examples(after)?);
        examples_error(median_value(before)?, median_value(after)?, examples)
    };
    error().unwrap_or_default()
}

fn change(draft: &Draft, ruling: &GateVerdict) -> Option<Change> {
    let median_value = |values: &[f64]| Some(median(values.iter().copied())?.value);
    let (verdict, doubt) = match ruling.verdict {
        Verdict::Improved => (ChangeVerdict::Improved, None),
        Verdict::Regressed => (ChangeVerdict::Regressed, None),
        Verdict::Unchanged => (ChangeVerdict::Unchanged, None),
        Verdict::Inconclusive(doubt) => (ChangeVerdict::Inconclusive, Some(doubt)),
    };
    Some(Change {
        metric: draft.metric,
        baseline: median_value(&draft.baseline)?,
        candidate: median_value(&draft.candidate)?,
        processes: (draft.baseline.len(), draft.candidate.len()),
        difference: draft.floor.scale == Scale::Difference,
        floor: draft.floor.size,
        threshold: ruling.threshold,
        verdict,
        doubt: doubt.map(|doubt: Doubt| doubt.to_string()).unwrap_or_default(),
        change: ruling.change.map(|change| change.value),
        interval: ruling
            .change
            .map(|change| (change.interval.low, change.interval.high)),
        p: ruling.p,
        adjusted_p: ruling.adjusted_p,
        catches: ruling.catches(),
        drift: ruling.drift,
    })
}
