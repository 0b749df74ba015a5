//! Changes of a cell that are not metrics: its status, executed precision, kernels and lost metrics.

use std::collections::BTreeSet;

use mantissa_core::{MetricName, Status};

use crate::{
    ChangeVerdict, Finding, FindingKind, MeasuredCell, executed_precision::ExecutedPrecision, pair::Pair,
};

/// Returns the findings about a cell. `judged`: the metrics that the policy judges.
pub(crate) fn findings(pair: &Pair<'_>, judged: &BTreeSet<MetricName>, repeats: usize) -> Vec<Finding> {
    let found = |kind, verdict, text: String| Finding { kind, verdict, text };
    let (before, after) = match (pair.before, pair.after) {
        (Some(before), Some(after)) => (before, after),
        (None, _) => {
            let text = "not in the baseline".to_owned();
            return vec![found(FindingKind::New, ChangeVerdict::Changed, text)];
        }
        (Some(_), None) => {
            let text = match pair.skipped {
                Some(reason) => format!("skipped: {reason}"),
                None => "not in the candidate".to_owned(),
            };
            return vec![found(FindingKind::Vanished, ChangeVerdict::Regressed, text)];
        }
    };
    let mut findings = vec![];
    findings.extend(ends(before, after, repeats));
    findings.extend(executed(before, after));
    findings.extend(kernels(before, after));
    findings.extend(lost(before, after, judged));
    findings
}

/// Compares the exit statuses. If all processes fail on both sides, the status is unchanged only with at least `repeats` processes on each
/// side.
fn ends(before: &MeasuredCell, after: &MeasuredCell, repeats: usize) -> Option<Finding> {
    let failing = |measured: &MeasuredCell| {
        let all = measured.processes.len();
        (all - measured.completed().count(), all)
    };
    let ((was, of), (is, among)) = (failing(before), failing(after));
    let failure = |measured: &MeasuredCell| {
        let worst = measured
            .processes
            .iter()
            .find(|process| process.status != Status::Ok)?;
        let reason = worst.reason.as_deref().unwrap_or("no reason recorded");
        Some((worst.status, reason.to_owned()))
    };
    let verdict = match (was, is) {
        (0, 0) => return None,
        (0, _) => ChangeVerdict::Regressed,
        (_, 0) => ChangeVerdict::Improved,
        _ if was == of && is == among && of.min(among) >= repeats => ChangeVerdict::Unchanged,
        _ if was == of && is == among => ChangeVerdict::Inconclusive,
        // All processes of the candidate failed.
        _ if is == among => ChangeVerdict::Regressed,
        // Some processes fail on both sides. The sample is too small to show whether the failure rate rose.
        _ => ChangeVerdict::Inconclusive,
    };
    let describe = |measured: &MeasuredCell, count: usize, all: usize| match failure(measured) {
        Some((status, reason)) => format!("{status} in {count} of {all} processes ({reason})"),
        None => format!("ok in all {all} processes"),
    };
    Some(Finding {
        kind: FindingKind::Status,
        verdict,
        text: format!(
            "{}; before: {}",
            describe(after, is, among),
            describe(before, was, of)
        ),
    })
}

/// Finds judged metrics that only the baseline has. The records do not contain the reason, so the verdict is inconclusive.
fn lost(before: &MeasuredCell, after: &MeasuredCell, judged: &BTreeSet<MetricName>) -> Option<Finding> {
    after.completed().next()?;
    let has = |measured: &MeasuredCell, metric| !measured.values(metric).is_empty();
    let metrics = judged
        .iter()
        .filter(|metric| has(before, **metric) && !has(after, **metric))
        .map(|metric| metric.name().to_owned());
    let seen = |measured: &MeasuredCell| {
        let mut executed = measured.processes.iter().map(|process| &process.executed);
        executed.any(|executed| ExecutedPrecision::of(executed).is_some())
    };
    let precision = (seen(before) && !seen(after)).then(|| "the executed precision".to_owned());
    let all: Vec<String> = metrics.chain(precision).collect();
    (!all.is_empty()).then(|| Finding {
        kind: FindingKind::Lost,
        verdict: ChangeVerdict::Inconclusive,
        text: format!("no longer measured: {}", all.join(", ")),
    })
}

/// Compares the precision that was observed in the processes.
fn executed(before: &MeasuredCell, after: &MeasuredCell) -> Option<Finding> {
    let seen = |measured: &MeasuredCell| -> BTreeSet<ExecutedPrecision> {
        measured
            .processes
            .iter()
            .filter_map(|process| ExecutedPrecision::of(&process.executed))
            .collect()
    };
    let (was, is) = (seen(before), seen(after));
    if was.is_empty() || is.is_empty() || was == is {
        return None;
    }
    let joined = |seen: &BTreeSet<ExecutedPrecision>| {
        seen.iter()
            .map(ExecutedPrecision::to_string)
            .collect::<Vec<_>>()
            .join(" or ")
    };
    // If only the requested precision changed, both texts are equal. The verdict distinguishes them.
    let is_ambiguous = joined(&was) == joined(&is);
    let describe = |seen: &BTreeSet<ExecutedPrecision>| match is_ambiguous {
        true => seen
            .iter()
            .map(|seen| format!("{seen}, {}", seen.verdict))
            .collect::<Vec<_>>()
            .join(" or "),
        false => joined(seen),
    };
    let worse = is.iter().any(|now| was.iter().all(|then| now.is_less_than(then)));
    let better = was.iter().any(|then| is.iter().all(|now| then.is_less_than(now)));
    Some(Finding {
        kind: FindingKind::Executed,
        verdict: match (worse, better) {
            (true, _) => ChangeVerdict::Regressed,
            (false, true) => ChangeVerdict::Improved,
            (false, false) => ChangeVerdict::Changed,
        },
        text: format!("executed {}; before: {}", describe(&is), describe(&was)),
    })
}

/// Compares the names of the kernels that ran.
fn kernels(before: &MeasuredCell, after: &MeasuredCell) -> Option<Finding> {
    let seen = |measured: &MeasuredCell| -> BTreeSet<String> {
        let processes = measured.processes.iter();
        processes
            .filter_map(|process| process.executed.kernel.clone())
            .collect()
    };
    let (was, is) = (seen(before), seen(after));
    if was.is_empty() || is.is_empty() || was == is {
        return None;
    }
    let joined = |seen: &BTreeSet<String>| seen.iter().cloned().collect::<Vec<_>>().join(" or ");
    Some(Finding {
        kind: FindingKind::Kernel,
        verdict: ChangeVerdict::Changed,
        text: format!("kernel {}; before: {}", joined(&is), joined(&was)),
    })
}
